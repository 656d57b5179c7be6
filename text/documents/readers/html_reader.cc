// HTML by its tokens: which elements are within sentences, and whose text stays as it is.
#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "text/documents/readers/document_readers.h"
#include "text/documents/readers/html_entities.h"
#include "text/documents/readers/html_tokens.h"

namespace tandem {
namespace {

using TokenKind = HtmlToken::Kind;
using Names = std::set<std::string_view>;

// No sentence goes over them. All others, unknown ones included, may be within one.
const Names kBlocks = {
    "address", "article",   "aside",    "base",     "blockquote", "body",       "br",
    "caption", "center",    "col",      "colgroup", "dd",         "details",    "dialog",
    "dir",     "div",       "dl",       "dt",       "fieldset",   "figcaption", "figure",
    "footer",  "form",      "frame",    "frameset", "h1",         "h2",         "h3",
    "h4",      "h5",        "h6",       "head",     "header",     "hgroup",     "hr",
    "html",    "iframe",    "legend",   "li",       "link",       "main",       "menu",
    "meta",    "nav",       "noframes", "noscript", "ol",         "optgroup",   "option",
    "p",       "plaintext", "pre",      "search",   "section",    "select",     "style",
    "summary", "table",     "tbody",    "td",       "template",   "textarea",   "tfoot",
    "th",      "thead",     "title",    "tr",       "ul",         "xmp"};
// Their text is not translated.
const Names kOpaque = {"code", "pre",    "script",    "style",   "kbd",     "samp",
                       "var",  "tt",     "textarea",  "svg",     "math",    "template",
                       "xmp",  "iframe", "plaintext", "noembed", "noframes"};
// Of these, the model does not see the text either.
const Names kUnseen = {"script", "style", "textarea", "svg", "math", "iframe", "noembed"};
const Names kVoid = {"area",  "base", "br",   "col",   "embed",  "frame", "hr", "img",
                     "input", "link", "meta", "param", "source", "track", "wbr"};
// Ended by the start of what may not be in them.
const Names kEndedByBlock = {"p"};
const Names kEndedBySibling = {"li", "dt", "dd", "td", "th", "tr", "option", "optgroup"};

bool is_one_of(const Names& names, std::string_view name) { return names.contains(name); }

// "notranslate" among the classes.
bool has_class(std::string_view classes, std::string_view name) {
  for (size_t at = classes.find(name); at != classes.npos; at = classes.find(name, at + 1)) {
    const size_t end = at + name.size();
    const auto is_edge = [&](size_t i) { return i >= classes.size() || classes[i] <= ' '; };
    if ((at == 0 || is_edge(at - 1)) && is_edge(end)) return true;
  }
  return false;
}

class HtmlReader {
 public:
  HtmlReader(DocumentFlow& flow, const TagRules& rules, size_t begin, size_t end)
      : flow_(flow),
        rules_(rules),
        base_(begin),
        end_(end),
        tokens_(flow.source().substr(begin, end - begin)) {}

  void read() {
    while (const auto token = tokens_.next()) {
      if (!opaque_.empty() && stays_opaque(*token)) continue;
      take(*token);
    }
    // (An element that has no end stays where it is.)
    flow_.boundary();
  }

 private:
  void take(const HtmlToken& token);
  void take_text(const HtmlToken& token);
  void start(const HtmlToken& token);
  void end(const HtmlToken& token);
  bool stays_opaque(const HtmlToken& token);
  void end_opaque(size_t at);
  bool splits(std::string_view name) const {
    if (rules_.inside.contains(name)) return false;
    return is_one_of(kBlocks, name) || rules_.splitting.contains(name);
  }
  bool is_opaque(const HtmlToken& token) const {
    const std::string_view translate = token.attribute("translate");
    return is_one_of(kOpaque, token.name) || rules_.ignored.contains(token.name) ||
           translate == "no" || translate == "NO" ||
           has_class(token.attribute("class"), "notranslate");
  }

  DocumentFlow& flow_;
  const TagRules& rules_;
  const size_t base_, end_;
  HtmlTokens tokens_;
  struct OpenTag {
    std::string name;
    int pair;
  };
  std::vector<OpenTag> open_;                     // within the block
  std::unordered_map<std::string, int> outside_;  // elements that have begun, by name

  // The element whose text is not translated, and what has begun in it.
  std::string opaque_;
  size_t opaque_begin_ = 0;
  std::string shown_;
  std::unordered_map<std::string, int> inside_;
  std::vector<std::string> inside_stack_;
};

void HtmlReader::take(const HtmlToken& token) {
  switch (token.kind) {
    case TokenKind::kText: return take_text(token);
    case TokenKind::kStart: return start(token);
    case TokenKind::kEnd: return end(token);
    case TokenKind::kRaw:
    case TokenKind::kOther:
      // (What the end cuts off would swallow text that came to stand behind it.)
      if (base_ + token.end == end_) flow_.boundary();
      if (flow_.in_block()) flow_.point(base_ + token.begin, base_ + token.end);
      return;
  }
}

void HtmlReader::take_text(const HtmlToken& token) {
  const size_t end = base_ + token.end;
  const std::string_view source = flow_.source().substr(0, end);
  size_t from = base_ + token.begin;
  for (size_t at = source.find('&', from); at < end; at = source.find('&', at)) {
    const CharacterReference found = character_reference(source, at);
    if (found.length == 0) {
      ++at;
      continue;
    }
    flow_.text(from, at);
    flow_.characters(at, at + found.length, found.text);
    from = at = at + found.length;
  }
  flow_.text(from, end);
}

void HtmlReader::start(const HtmlToken& token) {
  const size_t begin = base_ + token.begin, end = base_ + token.end;
  const bool blocks = splits(token.name), is_void = is_one_of(kVoid, token.name);
  if (blocks) {
    flow_.boundary();
    open_.clear();
  }
  if (is_opaque(token) && !is_void) {
    opaque_ = token.name;
    opaque_begin_ = begin;
    shown_.clear();
    inside_.clear();
    inside_stack_.clear();
    return;
  }
  if (is_void) {
    if (!blocks && flow_.in_block()) flow_.point(begin, end);
    return;
  }
  ++outside_[token.name];
  if (!blocks) open_.push_back({token.name, flow_.open(begin, end)});
}

void HtmlReader::end(const HtmlToken& token) {
  constexpr size_t kFarthest = 64;
  if (const auto it = outside_.find(token.name); it != outside_.end() && it->second > 0)
    --it->second;
  if (splits(token.name)) {
    flow_.boundary();
    open_.clear();
    return;
  }
  int pair = -1;
  for (size_t i = open_.size(); i-- > 0 && open_.size() - i <= kFarthest;) {
    if (open_[i].name != token.name) continue;
    pair = open_[i].pair;
    open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    break;
  }
  flow_.close(base_ + token.begin, base_ + token.end, pair);
}

// Whether the token is of the element that is not translated. Ends it where it is not.
bool HtmlReader::stays_opaque(const HtmlToken& token) {
  if (token.kind == TokenKind::kStart) {
    const bool by_block =
        is_one_of(kEndedByBlock, opaque_) && is_one_of(kBlocks, token.name) && token.name != "br";
    const bool by_sibling = is_one_of(kEndedBySibling, opaque_) && token.name == opaque_;
    if ((by_block || by_sibling) && inside_stack_.empty()) {
      end_opaque(base_ + token.begin);
      return false;
    }
    if (!is_one_of(kVoid, token.name)) {
      ++inside_[token.name];
      inside_stack_.push_back(token.name);
    }
    return true;
  }
  if (token.kind == TokenKind::kEnd) {
    if (const auto it = inside_.find(token.name); it != inside_.end() && it->second > 0) {
      while (true) {
        const std::string name = std::move(inside_stack_.back());
        inside_stack_.pop_back();
        --inside_[name];
        if (name == token.name) break;
      }
      return true;
    }
    if (token.name == opaque_) {
      end_opaque(base_ + token.end);
      return true;
    }
    const auto it = outside_.find(token.name);
    const bool ends_parent = it != outside_.end() && it->second > 0 && opaque_ != "plaintext";
    if (ends_parent) end_opaque(base_ + token.begin);
    return !ends_parent;
  }
  if (token.kind == TokenKind::kText && !is_one_of(kUnseen, opaque_))
    shown_ += flow_.source().substr(base_ + token.begin, token.end - token.begin);
  return true;
}

void HtmlReader::end_opaque(size_t at) {
  if (splits(opaque_)) {
    flow_.boundary();
  } else {
    std::string text;
    for (size_t i = 0; i < shown_.size();) {
      const CharacterReference found =
          shown_[i] == '&' ? character_reference(shown_, i) : CharacterReference();
      text += found.length > 0 ? found.text : shown_.substr(i, 1);
      i += std::max<size_t>(found.length, 1);
    }
    flow_.fixed(opaque_begin_, at, text);
  }
  opaque_.clear();
}

}  // namespace

void read_html(DocumentFlow& flow, const TagRules& rules, size_t begin, size_t end) {
  HtmlReader(flow, rules, begin, end).read();
}

}  // namespace tandem
