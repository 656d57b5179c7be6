// A Content-Type, a line feed and the body of a form: an error, or parts that lie in the body one
// behind the other. What was read and is written again, is read the same.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "server/http/multipart.h"

namespace tandem {
namespace {

using server::FormPart;

void check(bool holds) {
  if (!holds) std::abort();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

std::string written(const std::vector<FormPart>& parts, const std::string& boundary) {
  std::string body;
  for (const FormPart& part : parts) {
    body += "--" + boundary + "\r\nContent-Disposition: form-data; name=" + quoted(part.name);
    if (part.filename) body += "; filename=" + quoted(*part.filename);
    body += "\r\n\r\n" + std::string(part.content) + "\r\n";
  }
  return body + "--" + boundary + "--\r\n";
}

void check_parts(const std::vector<FormPart>& parts, std::string_view body,
                 const server::FormLimits& limits) {
  check(parts.size() <= limits.parts);
  const char* at = body.data();
  for (const FormPart& part : parts) {
    check(!part.name.empty() && part.name.size() <= limits.header_bytes);
    check(part.content.data() >= at && part.content.data() <= body.data() + body.size());
    at = part.content.data() + part.content.size();
    check(at <= body.data() + body.size());
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
  try {
    const std::string boundary = server::boundary_of(bytes.substr(0, line));
    check(!boundary.empty() && boundary.size() <= 70);
    const auto parts = server::parse_form(body, boundary, limits);
    check_parts(parts, body, limits);
    const std::string again = written(parts, boundary);
    const auto same = server::parse_form(again, boundary, wide);
    check(same.size() == parts.size());
    for (size_t i = 0; i < parts.size(); ++i)
      check(same[i].name == parts[i].name && same[i].filename == parts[i].filename &&
            same[i].content == parts[i].content);
  } catch (const InputError& e) {
    check(e.param() == "body" || e.param() == "content-type");
  }
  return 0;
}
