// A Content-Type, a line feed and the body of a form: an error, or parts, whether it comes whole or
// in small pieces. What was read and is written again, is read the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "server/http/body/form.h"
#include "server/http/body/multipart.h"

namespace tandem {
namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

struct Part {
  std::string name;
  std::optional<std::string> filename;
  std::string content;
  bool operator==(const Part&) const = default;
};

class Parts final : public server::FormSink {
 public:
  void begin_part(std::string name, std::optional<std::string> filename) override {
    check(!open_);
    open_ = true;
    parts.push_back({std::move(name), std::move(filename), {}});
  }
  void content(std::string_view bytes) override {
    check(open_ && !bytes.empty());
    parts.back().content += bytes;
  }
  void end_part() override {
    check(open_);
    open_ = false;
  }
  std::vector<Part> parts;

 private:
  bool open_ = false;
};

// In pieces of so many bytes; an error's text stands where the parts end.
std::vector<Part> parse(std::string_view body, const std::string& boundary, size_t piece,
                        const server::FormLimits& limits, std::string& error) {
  Parts parts;
  try {
    server::FormParser parser(boundary, parts, limits);
    for (; !body.empty(); body.remove_prefix(std::min(piece, body.size())))
      parser.put(body.substr(0, piece));
    parser.finish();
  } catch (const InputError& e) {
    check(e.param() == "body");
    error = e.what();
  }
  return parts.parts;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string written(const std::vector<Part>& parts, const std::string& boundary) {
  std::string body;
  for (const Part& part : parts) {
    body += "--" + boundary + "\r\nContent-Disposition: form-data; name=" + quoted(part.name);
    if (part.filename) body += "; filename=" + quoted(*part.filename);
    body += "\r\n\r\n" + part.content + "\r\n";
  }
  return body + "--" + boundary + "--\r\n";
}

// As the server keeps it: in memory, but for one file.
void check_form(const std::string& body, const std::string& boundary,
                const std::vector<Part>& parts, const server::FormLimits& limits) {
  std::shared_ptr<server::Form> form;
  try {
    form = server::read_form(body, boundary, limits);
  } catch (const InputError&) {  // a second file
    return;
  }
  check(form->parts.size() == parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const server::FormPart& part = form->parts[i];
    check(part.name == parts[i].name && part.filename == parts[i].filename);
    if (part.file)
      check(part.content.empty() && part.file->size() == parts[i].content.size());
    else
      check(part.content == parts[i].content);
  }
}

}  // namespace
}  // namespace tandem

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tandem;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const size_t line = std::min(bytes.find('\n'), size);
  const std::string_view body = bytes.substr(std::min(line + 1, size));
  // A header that is written again may be longer: no name is cut off by the bound then.
  const server::FormLimits limits{.parts = 16, .header_bytes = 256}, wide{16, 4096};
  std::string boundary;
  try {
    boundary = server::boundary_of(bytes.substr(0, line));
  } catch (const InputError& e) {
    check(e.param() == "content-type");
    return 0;
  }
  check(!boundary.empty() && boundary.size() <= 70);
  std::string error;
  const auto parts = parse(body, boundary, body.size() + 1, limits, error);
  for (const size_t piece : {size_t{1}, size_t{5}, 1 + size % 64}) {
    std::string same_error;
    check(parse(body, boundary, piece, limits, same_error) == parts || !error.empty());
    check(same_error == error);
  }
  check(parts.size() <= limits.parts);
  for (const Part& part : parts)
    check(!part.name.empty() && part.name.size() <= limits.header_bytes);
  if (!error.empty()) return 0;
  check(parse(written(parts, boundary), boundary, 16, wide, error) == parts && error.empty());
  check_form(std::string(body), boundary, parts, limits);
  return 0;
}
