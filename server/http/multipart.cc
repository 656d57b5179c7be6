#include "server/http/multipart.h"

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace tandem::server {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr size_t kMaxBoundary = 70;

bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_token_char(char c) {
  return is_letter_or_digit(c) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
bool is_boundary_char(char c) {
  return is_letter_or_digit(c) ||
         std::string_view("'()+_,-./:=? ").find(c) != std::string_view::npos;
}
bool is_blank(char c) { return c == ' ' || c == '\t'; }
// Of a header: anything but controls, the tabulator excepted.
bool is_text_char(char c) { return static_cast<unsigned char>(c) >= 0x20 ? c != 0x7f : c == '\t'; }

bool same_word(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    return lower(x) == lower(y);
  });
}

// A header's value from its front: words, parameters.
class ValueReader {
 public:
  explicit ValueReader(std::string_view text) : text_(text) {}

  // Up to the first ';' or the end, without blanks around it.
  std::string_view word() {
    skip_blanks();
    const size_t end = std::min(text_.find_first_of("; \t"), text_.size());
    const std::string_view out = text_.substr(0, end);
    text_.remove_prefix(end);
    return out;
  }
  // The next "; name=value"; nothing: the end, or what is no parameter (`wrong`).
  std::optional<std::pair<std::string_view, std::string>> parameter() {
    skip_blanks();
    if (text_.empty()) return std::nullopt;
    if (!take(';')) return fail();
    skip_blanks();
    if (text_.empty()) return std::nullopt;  // a ';' at the end, as some write
    const size_t end = find_end_of_token();
    const std::string_view name = text_.substr(0, end);
    text_.remove_prefix(end);
    if (name.empty() || !take('=')) return fail();
    std::optional<std::string> value = take('"') ? quoted() : bare();
    if (!value) return fail();
    return std::pair(name, std::move(*value));
  }
  bool wrong() const { return wrong_; }

 private:
  void skip_blanks() {
    while (!text_.empty() && is_blank(text_.front())) text_.remove_prefix(1);
  }
  bool take(char c) {
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }
  size_t find_end_of_token() const {
    size_t end = 0;
    while (end < text_.size() && is_token_char(text_[end])) ++end;
    return end;
  }
  // Not only what a token may have: some clients write boundaries with '=' or '/' without quotes.
  std::optional<std::string> bare() {
    const size_t end = std::min(text_.find_first_of("; \t\""), text_.size());
    if (end == 0) return std::nullopt;
    std::string out(text_.substr(0, end));
    text_.remove_prefix(end);
    return out;
  }
  // Up to the quote. A backslash stands before a quote or another one only: names of files on
  // Windows have it too.
  std::optional<std::string> quoted() {
    std::string out;
    while (!text_.empty()) {
      if (take('"')) return out;
      if (text_.size() > 1 && text_[0] == '\\' && (text_[1] == '"' || text_[1] == '\\'))
        text_.remove_prefix(1);
      out += text_.front();
      text_.remove_prefix(1);
    }
    return std::nullopt;
  }
  std::nullopt_t fail() {
    wrong_ = true;
    return std::nullopt;
  }

  std::string_view text_;
  bool wrong_ = false;
};

class FormReader {
 public:
  FormReader(std::string_view body, std::string_view boundary, const FormLimits& limits)
      : body_(body),
        delimiter_("\r\n--" + std::string(boundary)),
        dashes_(std::string_view(delimiter_).substr(2)),
        limits_(limits) {}

  std::vector<FormPart> read() {
    std::vector<FormPart> parts;
    if (!find_first()) fail("has no boundary \"" + delimiter_.substr(4) + "\"");
    while (!last_) {
      if (parts.size() >= limits_.parts)
        fail("has more than " + std::to_string(limits_.parts) + " parts");
      number_ = parts.size() + 1;
      parts.push_back(read_part());
    }
    return parts;
  }

 private:
  [[noreturn]] static void fail(const std::string& what) { throw invalid_request("body", what); }
  [[noreturn]] void fail_part(const std::string& what) const {
    fail("part " + std::to_string(number_) + " of the form " + what);
  }

  // Whether the line goes on behind a boundary at `at` as that of one must; then what follows is
  // the next part, or nothing. Otherwise it is data that begins alike.
  bool ends_boundary(size_t at) {
    const bool last = body_.compare(at, 2, "--") == 0;
    if (last) at += 2;
    while (at < body_.size() && is_blank(body_[at])) ++at;
    const bool line = body_.compare(at, 2, kLineEnd) == 0;
    if (!line && !(last && at == body_.size())) return false;
    at_ = at + (line ? 2 : 0);
    last_ = last;
    return true;
  }
  bool find_first() {
    if (body_.compare(0, dashes_.size(), dashes_) == 0 && ends_boundary(dashes_.size()))
      return true;
    return find_boundary(0).has_value();
  }
  // Where the content that begins at `from` ends; at_ is behind the boundary then.
  std::optional<size_t> find_boundary(size_t from) {
    for (size_t at = body_.find(delimiter_, from); at != body_.npos;
         at = body_.find(delimiter_, at + 2))
      if (ends_boundary(at + delimiter_.size())) return at;
    return std::nullopt;
  }

  FormPart read_part() {
    FormPart part;
    bool named = false;
    const size_t begin = at_;
    for (;;) {
      const std::string_view line = read_line(begin);
      if (line.empty()) break;
      const size_t colon = line.find(':');
      const std::string_view name = line.substr(0, std::min(colon, line.size()));
      if (colon == line.npos || name.empty() ||
          !std::all_of(name.begin(), name.end(), is_token_char) ||
          !std::all_of(line.begin(), line.end(), is_text_char))
        fail_part("has a header that is none");
      read_header(name, line.substr(colon + 1), part, named);
    }
    if (!named) fail_part("has no Content-Disposition with a name");
    // A boundary may stand right behind the header: the empty line's end is its own then.
    const size_t content = at_;
    const auto end = find_boundary(content - kLineEnd.size());
    if (!end) fail("ends before the form's last boundary");
    part.content = body_.substr(content, *end > content ? *end - content : 0);
    return part;
  }
  // A line of the header that begins at `begin`, without its end.
  std::string_view read_line(size_t begin) {
    const size_t most = begin + limits_.header_bytes;
    const size_t end = body_.substr(0, std::min(body_.size(), most)).find(kLineEnd, at_);
    if (end == body_.npos) {
      if (body_.size() > most)
        fail_part("has a header larger than " + std::to_string(limits_.header_bytes) + " bytes");
      fail("ends in the header of a part");
    }
    const std::string_view line = body_.substr(at_, end - at_);
    at_ = end + kLineEnd.size();
    return line;
  }
  void read_header(std::string_view name, std::string_view value, FormPart& part, bool& named) {
    if (same_word(name, "content-transfer-encoding")) {
      const std::string_view encoding = ValueReader(value).word();
      for (const char* plain : {"7bit", "8bit", "binary"})
        if (same_word(encoding, plain)) return;
      fail_part("has a Content-Transfer-Encoding, which forms do not have");
    }
    if (!same_word(name, "content-disposition")) return;
    if (named) fail_part("has two Content-Dispositions");
    ValueReader reader(value);
    if (!same_word(reader.word(), "form-data")) fail_part("has a Content-Disposition of no form");
    while (auto parameter = reader.parameter()) {
      auto& [key, text] = *parameter;
      if (same_word(key, "name")) {
        if (std::exchange(named, true)) fail_part("has two names");
        part.name = std::move(text);
      } else if (same_word(key, "filename")) {
        if (part.filename) fail_part("has two filenames");
        part.filename = std::move(text);
      }  // filename* is not to be used (RFC 7578, 4.2), and says nothing that is needed
    }
    if (reader.wrong()) fail_part("has a Content-Disposition that cannot be read");
    if (named && part.name.empty()) fail_part("has an empty name");
  }

  const std::string_view body_;
  const std::string delimiter_;    // with the line end before it
  const std::string_view dashes_;  // without
  const FormLimits limits_;
  size_t at_ = 0;
  size_t number_ = 0;  // of the part, for messages
  bool last_ = false;
};

}  // namespace

std::string boundary_of(std::string_view content_type) {
  constexpr const char* kField = "content-type";
  ValueReader reader(content_type);
  const std::string_view type = reader.word();
  if (!same_word(type, "multipart/form-data"))
    throw invalid_request(
        kField, "expected multipart/form-data, found " + std::string(content_type.substr(0, 80)));
  std::optional<std::string> boundary;
  while (auto parameter = reader.parameter()) {
    if (!same_word(parameter->first, "boundary")) continue;
    if (boundary) throw invalid_request(kField, "has two boundaries");
    boundary = std::move(parameter->second);
  }
  if (reader.wrong()) throw invalid_request(kField, "has parameters that cannot be read");
  if (!boundary) throw invalid_request(kField, "has no boundary");
  if (boundary->empty() || boundary->size() > kMaxBoundary || boundary->back() == ' ' ||
      !std::all_of(boundary->begin(), boundary->end(), is_boundary_char))
    throw invalid_request(kField, "has a boundary that is none (RFC 2046, 5.1.1)");
  return *boundary;
}

std::vector<FormPart> parse_form(std::string_view body, std::string_view boundary,
                                 const FormLimits& limits) {
  return FormReader(body, boundary, limits).read();
}

}  // namespace tandem::server
