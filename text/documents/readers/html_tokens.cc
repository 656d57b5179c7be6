#include "text/documents/readers/html_tokens.h"

#include <algorithm>
#include <iterator>

namespace tandem {
namespace {

constexpr std::string_view kBlanks = " \t\n\f\r";
// Nothing in them is a tag but their own end. <title> and <textarea> have text in them, "&amp;"
// included.
constexpr std::string_view kRawElements[] = {"script",  "style",    "xmp",   "iframe",
                                             "noembed", "noframes", "title", "textarea"};

bool is_html_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_html_blank(char c) { return kBlanks.find(c) != std::string_view::npos; }

std::string lower_ascii(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace

std::string_view HtmlToken::attribute(std::string_view of) const {
  for (const auto& [key, value] : attributes)
    if (key == of) return value;
  return {};
}

bool HtmlToken::has(std::string_view of) const {
  return std::any_of(attributes.begin(), attributes.end(),
                     [&](const auto& attribute) { return attribute.first == of; });
}

std::optional<HtmlToken> HtmlTokens::next() {
  if (at_ == source_.size()) return std::nullopt;
  HtmlToken token;
  if (!raw_name_.empty() || source_[at_] != '<') {
    token = raw();
  } else {
    token = tag(at_);
  }
  at_ = token.end;
  return token;
}

// Text up to the next tag; of an element that holds no markup, up to its end tag.
HtmlToken HtmlTokens::raw() {
  HtmlToken token{HtmlToken::Kind::kText, at_, source_.size(), {}, {}};
  if (raw_name_.empty()) {
    for (size_t from = at_ + 1;;) {
      const size_t open = source_.find('<', from);
      if (open == source_.npos) break;
      const char next = open + 1 < source_.size() ? source_[open + 1] : ' ';
      if (is_html_letter(next) || next == '/' || next == '!' || next == '?') {
        token.end = open;
        break;
      }
      from = open + 1;
    }
    return token;
  }
  if (raw_name_ != "title" && raw_name_ != "textarea") token.kind = HtmlToken::Kind::kRaw;
  const size_t length = raw_name_.size();
  for (size_t open = source_.find("</", at_); open != source_.npos && raw_name_ != "plaintext";
       open = source_.find("</", open + 2)) {
    const size_t behind = open + 2 + length;
    if (behind > source_.size() || lower_ascii(source_.substr(open + 2, length)) != raw_name_)
      continue;
    if (behind < source_.size() && !is_html_blank(source_[behind]) && source_[behind] != '/' &&
        source_[behind] != '>')
      continue;
    raw_name_.clear();
    if (open == at_) return tag(at_);
    token.end = open;
    return token;
  }
  return token;
}

// The token at a "<".
HtmlToken HtmlTokens::tag(size_t begin) {
  HtmlToken token{HtmlToken::Kind::kOther, begin, source_.size(), {}, {}};
  const char next = begin + 1 < source_.size() ? source_[begin + 1] : ' ';
  if (next == '!' || next == '?') {
    token.end = end_of_other(begin);
    return token;
  }
  const bool closes = next == '/';
  const size_t name = begin + (closes ? 2 : 1);
  if (name >= source_.size() || !is_html_letter(source_[name])) {
    token.kind = HtmlToken::Kind::kText;
    if (closes && name < source_.size()) {  // "</>" is nothing, "</ x>" a comment
      token.kind = HtmlToken::Kind::kOther;
      token.end = std::min(source_.find('>', name), source_.size() - 1) + 1;
    } else {
      at_ = begin;
      raw_name_.clear();
      return raw();
    }
    return token;
  }
  size_t at = std::min(source_.find_first_of(" \t\n\f\r/>", name), source_.size());
  token.name = lower_ascii(source_.substr(name, at - name));
  at = attributes(at, token);
  if (at == source_.size()) return token;  // the end cuts it off
  token.kind = closes ? HtmlToken::Kind::kEnd : HtmlToken::Kind::kStart;
  token.end = at + 1;
  const bool raw = std::find(std::begin(kRawElements), std::end(kRawElements), token.name) !=
                   std::end(kRawElements);
  if (!closes && (raw || token.name == "plaintext")) raw_name_ = token.name;
  return token;
}

// Returns where the ">" is, or the end of the source.
size_t HtmlTokens::attributes(size_t at, HtmlToken& tag) const {
  const auto skip = [&](std::string_view characters) {
    at = std::min(source_.find_first_not_of(characters, at), source_.size());
  };
  while (true) {
    skip(" \t\n\f\r/");
    if (at == source_.size() || source_[at] == '>') return at;
    const size_t begin = at;
    // ("=" may begin a name.)
    at = std::min(source_.find_first_of(" \t\n\f\r/>=", at + 1), source_.size());
    std::string name = lower_ascii(source_.substr(begin, at - begin));
    std::string_view value;
    skip(kBlanks);
    if (at < source_.size() && source_[at] == '=') {
      ++at;
      skip(kBlanks);
      if (at == source_.size()) return at;
      const char quote = source_[at];
      const bool quoted = quote == '"' || quote == '\'';
      const size_t from = quoted ? at + 1 : at;
      const size_t to =
          quoted ? source_.find(quote, from) : source_.find_first_of(" \t\n\f\r>", at);
      if (quoted && to == source_.npos) return source_.size();
      value = source_.substr(from, to - from);
      at = std::min(to, source_.size()) + (quoted ? 1 : 0);
    }
    // More would take quadratic time to look through.
    if (tag.attributes.size() < 64) tag.attributes.emplace_back(std::move(name), value);
  }
}

// Of a comment, a doctype, or what counts as a comment.
size_t HtmlTokens::end_of_other(size_t begin) const {
  const std::string_view rest = source_.substr(begin);
  const auto behind = [&](size_t found, size_t length) {
    return found == rest.npos ? source_.size() : begin + found + length;
  };
  if (rest.starts_with("<![CDATA[")) return behind(rest.find("]]>", 9), 3);
  if (!rest.starts_with("<!--")) return behind(rest.find('>'), 1);
  if (rest.starts_with("<!-->")) return begin + 5;
  if (rest.starts_with("<!--->")) return begin + 6;
  const size_t end = behind(rest.find("-->", 4), 3);
  return std::min(end, behind(rest.substr(0, end - begin).find("--!>", 4), 4));
}

}  // namespace tandem
