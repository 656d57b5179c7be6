#include "server/http/body/multipart.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "server/http/token_chars.h"

namespace tandem::server {
namespace {

constexpr std::string_view kLineEnd = "\r\n";
constexpr size_t kMaxBoundary = 70;

bool is_boundary_char(char c) {
  return is_letter_or_digit(c) ||
         std::string_view("'()+_,-./:=? ").find(c) != std::string_view::npos;
}
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

constexpr size_t kMaxPadding = 256;   // blanks behind a boundary
constexpr size_t kPiece = 64 * 1024;  // that is looked at together

}  // namespace

// A boundary's place in the pending bytes.
struct FormParser::Boundary {
  enum class Found { kNo, kPerhaps, kYes };
  Found found = Found::kNo;
  size_t begin = 0, end = 0;  // kPerhaps: where it may begin; kYes: where it is
  bool last = false;          // kYes: it is the form's last one
};

FormParser::FormParser(std::string_view boundary, FormSink& sink, const FormLimits& limits)
    : delimiter_("\r\n--" + std::string(boundary)),
      sink_(sink),
      limits_(limits),
      pending_(kLineEnd) {}

void FormParser::fail(const std::string& what) { throw invalid_request("body", what); }

void FormParser::fail_part(const std::string& what) const {
  fail("part " + std::to_string(number_) + " of the form " + what);
}

void FormParser::put(std::string_view bytes) {
  while (!bytes.empty() && state_ != State::kEpilogue) {
    pending_ += bytes.substr(0, kPiece);
    bytes.remove_prefix(std::min(kPiece, bytes.size()));
    while (parse(/*at_end=*/false)) {
    }
  }
}

void FormParser::finish() {
  while (parse(/*at_end=*/true)) {
  }
  switch (state_) {
    case State::kPreamble: fail("has no boundary \"" + delimiter_.substr(4) + "\"");
    case State::kHeader: fail("ends in the header of a part");
    case State::kContent: fail("ends before the form's last boundary");
    case State::kEpilogue: break;
  }
}

// One step on; false: it needs more bytes.
bool FormParser::parse(bool at_end) {
  switch (state_) {
    case State::kPreamble:
    case State::kContent: return parse_to_boundary(at_end);
    case State::kHeader: return parse_header();
    case State::kEpilogue: break;
  }
  pending_.clear();
  return false;
}

// The first boundary. Behind it stands what a boundary's line ends with; otherwise it is data that
// begins alike.
FormParser::Boundary FormParser::find_boundary(bool at_end) const {
  using Found = Boundary::Found;
  const std::string_view text = pending_;
  for (size_t at = text.find(delimiter_); at != text.npos; at = text.find(delimiter_, at + 2)) {
    size_t end = at + delimiter_.size();
    const bool cut = !at_end && text.size() < end + 2;
    const bool last = text.substr(end, 2) == "--";
    if (last) end += 2;
    const size_t padding = end;
    while (end < text.size() && end - padding <= kMaxPadding && is_blank(text[end])) ++end;
    if (end - padding > kMaxPadding) continue;
    const std::string_view rest = text.substr(end, 2);
    if (rest == kLineEnd) return {Found::kYes, at, end + 2, last};
    if (last && at_end && rest.empty()) return {Found::kYes, at, end, last};
    const bool may_go_on = rest.empty() || rest == "\r" || (cut && rest == "-");
    if (!at_end && may_go_on) return {Found::kPerhaps, at};
  }
  // The end of what is there may be the front of one.
  for (size_t most = std::min(text.size(), delimiter_.size() - 1); most > 0; --most)
    if (text.substr(text.size() - most) == std::string_view(delimiter_).substr(0, most))
      return {Found::kPerhaps, text.size() - most};
  return {};
}

bool FormParser::parse_to_boundary(bool at_end) {
  const Boundary boundary = find_boundary(at_end);
  const bool found = boundary.found == Boundary::Found::kYes;
  pass_on(boundary.found == Boundary::Found::kNo ? pending_.size() : boundary.begin);
  if (!found) return false;
  consume(boundary.end - boundary.begin);
  if (state_ == State::kContent) sink_.end_part();
  last_ = boundary.last;
  state_ = last_ ? State::kEpilogue : State::kHeader;
  if (!last_ && number_++ >= limits_.parts)
    fail("has more than " + std::to_string(limits_.parts) + " parts");
  header_ = 0;
  name_.reset();
  filename_.reset();
  return true;
}

// A line of a part's header.
bool FormParser::parse_header() {
  const size_t end = pending_.find(kLineEnd);
  const size_t used = header_ + (end == pending_.npos ? pending_.size() : end + kLineEnd.size());
  if (used > limits_.header_bytes)
    fail_part("has a header larger than " + std::to_string(limits_.header_bytes) + " bytes");
  if (end == pending_.npos) return false;
  if (end == 0) {
    if (!name_) fail_part("has no Content-Disposition with a name");
    // A boundary may stand right behind the header: the empty line's end is its own then.
    virtual_ = kLineEnd.size();
    state_ = State::kContent;
    sink_.begin_part(std::move(*name_), std::move(filename_));
    return true;
  }
  header_ = used;
  const std::string line = pending_.substr(0, end);
  consume(end + kLineEnd.size());
  const size_t colon = line.find(':');
  const std::string name = line.substr(0, std::min(colon, line.size()));
  if (colon == line.npos || name.empty() || !std::all_of(name.begin(), name.end(), is_token_char) ||
      !std::all_of(line.begin(), line.end(), is_text_char))
    fail_part("has a header that is none");
  read_header(name, std::string_view(line).substr(colon + 1));
  return true;
}

void FormParser::read_header(std::string_view name, std::string_view value) {
  if (same_word(name, "content-transfer-encoding")) {
    const std::string_view encoding = ValueReader(value).word();
    for (const char* plain : {"7bit", "8bit", "binary"})
      if (same_word(encoding, plain)) return;
    fail_part("has a Content-Transfer-Encoding, which forms do not have");
  }
  if (!same_word(name, "content-disposition")) return;
  if (name_) fail_part("has two Content-Dispositions");
  ValueReader reader(value);
  if (!same_word(reader.word(), "form-data")) fail_part("has a Content-Disposition of no form");
  while (auto parameter = reader.parameter()) {
    auto& [key, text] = *parameter;
    if (same_word(key, "name")) {
      if (name_) fail_part("has two names");
      name_ = std::move(text);
    } else if (same_word(key, "filename")) {
      if (filename_) fail_part("has two filenames");
      filename_ = std::move(text);
    }  // filename* is not to be used (RFC 7578, 4.2), and says nothing that is needed
  }
  if (reader.wrong()) fail_part("has a Content-Disposition that cannot be read");
  if (name_ && name_->empty()) fail_part("has an empty name");
}

// The first bytes are content, or nothing.
void FormParser::pass_on(size_t bytes) {
  const size_t skipped = std::min(virtual_, bytes);
  virtual_ -= skipped;
  if (state_ == State::kContent && bytes > skipped)
    sink_.content(std::string_view(pending_).substr(skipped, bytes - skipped));
  consume(bytes);
}

void FormParser::consume(size_t bytes) { pending_.erase(0, bytes); }

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

}  // namespace tandem::server
