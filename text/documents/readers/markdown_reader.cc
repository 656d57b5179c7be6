// Markdown by md4c, which points into the source at each text. The markup between two texts is read
// from what md4c says has begun and ended there.
#include <md4c.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "text/documents/readers/document_readers.h"
#include "text/documents/readers/html_entities.h"
#include "text/documents/readers/html_tokens.h"

namespace tandem {
namespace {

// The front matter's end; 0: there is none.
size_t end_of_front_matter(std::string_view source) {
  for (const std::string_view mark : {"---", "+++"}) {
    if (!source.starts_with(mark)) continue;
    size_t at = source.find('\n');
    if (at == source.npos || source.substr(3, at - 3).find_first_not_of(" \t\r") != source.npos)
      return 0;
    while (at != source.npos) {
      const size_t begin = at + 1;
      at = source.find('\n', begin);
      std::string_view line = source.substr(begin, at - begin);
      while (line.ends_with(' ') || line.ends_with('\r')) line.remove_suffix(1);
      if (line == mark || (mark == "---" && line == "..."))
        return at == source.npos ? source.size() : at + 1;
    }
  }
  return 0;
}

class MarkdownReader {
 public:
  explicit MarkdownReader(DocumentFlow& flow) : flow_(flow), source_(flow.source()) {}

  void read(size_t begin) {
    MD_PARSER parser{};
    parser.flags = MD_FLAG_TABLES | MD_FLAG_STRIKETHROUGH | MD_FLAG_TASKLISTS;
    parser.enter_block = [](MD_BLOCKTYPE type, void*, void* self) {
      static_cast<MarkdownReader*>(self)->enter_block(type);
      return 0;
    };
    parser.leave_block = [](MD_BLOCKTYPE type, void*, void* self) {
      static_cast<MarkdownReader*>(self)->leave_block(type);
      return 0;
    };
    parser.enter_span = [](MD_SPANTYPE type, void*, void* self) {
      static_cast<MarkdownReader*>(self)->enter_span(type);
      return 0;
    };
    parser.leave_span = [](MD_SPANTYPE type, void*, void* self) {
      static_cast<MarkdownReader*>(self)->leave_span(type);
      return 0;
    };
    parser.text = [](MD_TEXTTYPE type, const MD_CHAR* text, MD_SIZE size, void* self) {
      static_cast<MarkdownReader*>(self)->text(type, std::string_view(text, size));
      return 0;
    };
    at_ = begin;
    const std::string_view rest = source_.substr(begin);
    const int status = md_parse(rest.data(), static_cast<MD_SIZE>(rest.size()), &parser, this);
    TANDEM_CHECK_EQ(status, 0);
    flow_.boundary();
  }

 private:
  void enter_block(MD_BLOCKTYPE type);
  void leave_block(MD_BLOCKTYPE type);
  void enter_span(MD_SPANTYPE type);
  void leave_span(MD_SPANTYPE type);
  void text(MD_TEXTTYPE type, std::string_view text);
  void take_inline(MD_TEXTTYPE type, size_t begin, size_t end);

  void end_block();
  void take_html(size_t begin, size_t end);
  void take_words(size_t begin, size_t end);
  void leave_code();
  void soft_break();
  void hard_break();
  void break_block();
  void begin_code(size_t begin);
  size_t end_of_link(size_t close) const;
  void open_spans(size_t anchor);
  size_t after_line_end() const;
  bool is_hidden() const { return images_ > 0 || !html_.empty(); }

  DocumentFlow& flow_;
  const std::string_view source_;
  size_t at_ = 0;  // up to where the source has been read
  MD_BLOCKTYPE block_ = MD_BLOCK_DOC;
  struct OpenSpan {
    MD_SPANTYPE type;
    size_t begin = 0;      // of what is in it
    int pair = -1;         // -1: nothing has been opened for it
    bool is_open = false;  // where it begins is known, as far as it can be
  };
  std::vector<OpenSpan> spans_;
  int images_ = 0;          // that we are in
  size_t image_begin_ = 0;  // of the outermost
  size_t code_begin_ = 0, code_ticks_ = 0;
  std::string shown_code_;
  size_t html_block_begin_ = 0, html_block_end_ = 0;
  bool html_block_whole_ = true;
  std::string html_;  // an element written in HTML whose text is not translated
  size_t html_begin_ = 0;
  std::string shown_;                              // its text
  std::vector<std::pair<std::string, int>> tags_;  // written in HTML, within the block
};

void MarkdownReader::end_block() {
  flow_.boundary();
  spans_.clear();
  tags_.clear();
  html_.clear();
  images_ = 0;
}

void MarkdownReader::enter_block(MD_BLOCKTYPE type) {
  end_block();
  block_ = type;
  html_block_begin_ = html_block_end_ = 0;
  html_block_whole_ = true;
}

void MarkdownReader::leave_block(MD_BLOCKTYPE type) {
  if (type == MD_BLOCK_HTML && html_block_end_ > html_block_begin_ && html_block_whole_)
    read_html(flow_, {}, html_block_begin_, html_block_end_);
  end_block();
  block_ = MD_BLOCK_DOC;
}

// Opens the spans that have begun, whose markup is before `anchor`, one behind the other.
void MarkdownReader::open_spans(size_t anchor) {
  std::vector<std::pair<size_t, OpenSpan*>> begins;
  for (size_t i = spans_.size(); i-- > 0 && !spans_[i].is_open;) {
    spans_[i].is_open = true;
    if (is_hidden()) continue;
    const std::string_view before = source_.substr(at_, anchor - at_);
    size_t length = 0;
    switch (spans_[i].type) {
      case MD_SPAN_EM: length = before.ends_with('*') || before.ends_with('_') ? 1 : 0; break;
      case MD_SPAN_STRONG: length = before.ends_with("**") || before.ends_with("__") ? 2 : 0; break;
      case MD_SPAN_DEL: length = before.ends_with("~~") ? 2 : before.ends_with('~') ? 1 : 0; break;
      case MD_SPAN_A: length = before.ends_with('[') || before.ends_with('<') ? 1 : 0; break;
      default: break;
    }
    if (length == 0) continue;
    spans_[i].begin = anchor;
    anchor -= length;
    begins.emplace_back(anchor, &spans_[i]);
  }
  for (auto it = begins.rbegin(); it != begins.rend(); ++it)
    it->second->pair = flow_.open(it->first, it->second->begin);
}

void MarkdownReader::enter_span(MD_SPANTYPE type) {
  if (type == MD_SPAN_IMG && images_++ == 0) {
    const size_t found = source_.find("![", at_);
    if (found != source_.npos) {
      --images_;
      open_spans(found);
      ++images_;
      image_begin_ = found;
      at_ = found + 2;
    } else {
      image_begin_ = at_;
    }
  }
  if (type == MD_SPAN_CODE) {
    code_ticks_ = 0;
    shown_code_.clear();
  }
  OpenSpan span;
  span.type = type;
  span.is_open = type == MD_SPAN_IMG || type == MD_SPAN_CODE;
  spans_.push_back(span);
}

void MarkdownReader::leave_span(MD_SPANTYPE type) {
  if (spans_.empty() || spans_.back().type != type) return;  // the block has broken it off
  const OpenSpan span = spans_.back();
  spans_.pop_back();
  if (type == MD_SPAN_CODE) return leave_code();
  if (type == MD_SPAN_IMG) {
    at_ = end_of_link(at_);
    if (--images_ == 0 && html_.empty()) flow_.point(image_begin_, at_);
    return;
  }
  if (span.pair < 0 && !span.is_open) return;
  const size_t begin = at_;
  const char next = begin < source_.size() ? source_[begin] : ' ';
  std::string written;
  if (type == MD_SPAN_A) {
    at_ = end_of_link(begin);
    const std::string_view markup = source_.substr(begin, at_ - begin);
    // A reference by its text alone: the text changes, the reference must not.
    if (markup == "]" || markup == "][]")
      written = "][" + std::string(source_.substr(span.begin, begin - span.begin)) + "]";
  } else if (type == MD_SPAN_DEL) {
    while (at_ < source_.size() && at_ < begin + 2 && source_[at_] == '~') ++at_;
  } else if ((type == MD_SPAN_EM || type == MD_SPAN_STRONG) && (next == '*' || next == '_')) {
    at_ = std::min(begin + (type == MD_SPAN_EM ? 1 : 2), source_.size());
  }
  if (at_ > begin && !is_hidden()) flow_.close(begin, at_, span.pair, std::move(written));
}

// The end of "](url "title")", "][label]", "]" or ">" at this place.
size_t MarkdownReader::end_of_link(size_t close) const {
  const auto at = [&](size_t i) { return i < source_.size() ? source_[i] : '\0'; };
  if (at(close) == '>') return close + 1;
  if (at(close) != ']') return close;
  if (at(close + 1) == '[') {
    size_t end = close + 2;
    while (end < source_.size() && source_[end] != ']') end += source_[end] == '\\' ? 2 : 1;
    return std::min(end + 1, source_.size());
  }
  if (at(close + 1) != '(') return close + 1;
  size_t i = close + 2;
  int depth = 1;
  char quote = '\0';
  for (; i < source_.size() && depth > 0; ++i) {
    const char c = source_[i];
    if (c == '\\') {
      ++i;
    } else if (quote != '\0') {
      if (c == quote) quote = '\0';
    } else if (c == '<' && source_[i - 1] == '(') {
      quote = '>';
    } else if ((c == '"' || c == '\'') && (source_[i - 1] == ' ' || source_[i - 1] == '\n')) {
      quote = c;
    } else if (c == '(' || c == ')') {
      depth += c == '(' ? 1 : -1;
    }
  }
  return std::min(i, source_.size());
}

void MarkdownReader::leave_code() {
  if (code_ticks_ == 0) return;
  const size_t found = source_.find(std::string(code_ticks_, '`'), at_);
  at_ = found == source_.npos ? source_.size() : found + code_ticks_;
  if (!is_hidden()) flow_.fixed(code_begin_, at_, shown_code_);
}

size_t MarkdownReader::after_line_end() const {
  size_t end = source_.find_first_of("\n\r", at_);
  if (end == source_.npos) return at_;
  end += source_.substr(end).starts_with("\r\n") ? 2 : 1;
  return std::min(source_.find_first_not_of(" \t>", end), source_.size());
}

// A line end in a paragraph, with the next line's indentation and the marks of quotations.
void MarkdownReader::soft_break() {
  const size_t begin = std::exchange(at_, after_line_end());
  if (html_.empty() && images_ == 0 && at_ > begin) flow_.characters(begin, at_, " ");
}

void MarkdownReader::hard_break() {
  at_ = after_line_end();
  if (!is_hidden()) break_block();
}

// A sentence ends; spans may go on.
void MarkdownReader::break_block() {
  flow_.boundary();
  for (OpenSpan& span : spans_) span.pair = -1;
  tags_.clear();
}

// A tag, or a comment, within a paragraph.
void MarkdownReader::take_html(size_t begin, size_t end) {
  static const std::set<std::string_view> kOpaque = {"code", "kbd", "samp", "var", "tt", "pre"};
  static const std::set<std::string_view> kVoid = {"img", "input", "wbr", "embed"};
  const auto token = HtmlTokens(source_.substr(begin, end - begin)).next();
  if (!token) return;
  if (!html_.empty()) {
    if (token->kind == HtmlToken::Kind::kEnd && token->name == html_) {
      flow_.fixed(html_begin_, end, shown_);
      html_.clear();
    }
    return;
  }
  if (token->kind == HtmlToken::Kind::kStart && kOpaque.contains(token->name)) {
    html_ = token->name;
    html_begin_ = begin;
    shown_.clear();
  } else if (token->kind == HtmlToken::Kind::kStart && token->name == "br") {
    break_block();
  } else if (token->kind == HtmlToken::Kind::kStart && !kVoid.contains(token->name)) {
    tags_.emplace_back(token->name, flow_.open(begin, end));
  } else if (token->kind == HtmlToken::Kind::kEnd) {
    int pair = -1;
    for (size_t i = tags_.size(); i-- > 0 && pair < 0 && tags_.size() - i <= 64;) {
      if (tags_[i].first != token->name) continue;
      pair = tags_[i].second;
      tags_.erase(tags_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    flow_.close(begin, end, pair);
  } else if (flow_.in_block()) {
    flow_.point(begin, end);
  }
}

// Text; "[^1]", a footnote's mark, is none.
void MarkdownReader::take_words(size_t begin, size_t end) {
  const std::string_view words = source_.substr(0, end);
  size_t from = begin;
  for (size_t at = words.find("[^", begin); at < end; at = words.find("[^", at + 1)) {
    size_t close = words.find_first_of("] \t\n", at + 2);
    if (close >= end || source_[close] != ']' || close == at + 2) continue;
    ++close;
    if (close < end && source_[close] == ':') ++close;
    flow_.text(from, at);
    flow_.fixed(at, close, source_.substr(at, close - at));
    from = close;
  }
  flow_.text(from, end);
}

// Code's first text is at `begin`, behind the backticks.
void MarkdownReader::begin_code(size_t begin) {
  while (begin > at_ &&
         std::string_view(" \n\r").find(source_[begin - 1]) != std::string_view::npos)
    --begin;
  const size_t end = begin;
  while (begin > at_ && source_[begin - 1] == '`') --begin;
  code_begin_ = begin;
  code_ticks_ = end - begin;
  open_spans(begin);
}

void MarkdownReader::text(MD_TEXTTYPE type, std::string_view text) {
  if (type == MD_TEXT_SOFTBR) return soft_break();
  if (type == MD_TEXT_BR) return hard_break();
  if (type == MD_TEXT_CODE) shown_code_ += text;
  const std::less<const char*> before;
  if (before(text.data(), source_.data()) ||
      before(source_.data() + source_.size(), text.data() + text.size()))
    return;
  const auto begin = static_cast<size_t>(text.data() - source_.data());
  const size_t end = begin + text.size();
  if (begin < at_ || text.empty()) return;
  if (block_ == MD_BLOCK_HTML) {
    // (In a quotation or a list there is more than line ends between its lines.)
    const std::string_view between = source_.substr(at_, begin - at_);
    if (html_block_end_ == 0)
      html_block_begin_ = begin;
    else if (between.find_first_not_of("\r\n") != between.npos)
      html_block_whole_ = false;
    html_block_end_ = end;
  } else if (block_ != MD_BLOCK_CODE) {
    take_inline(type, begin, end);
  }
  at_ = end;
}

void MarkdownReader::take_inline(MD_TEXTTYPE type, size_t begin, size_t end) {
  const std::string_view text = source_.substr(begin, end - begin);
  const bool is_escaped = begin > at_ && source_[begin - 1] == '\\';
  if (type == MD_TEXT_CODE) {
    if (code_ticks_ == 0) begin_code(begin);
    if (!html_.empty()) shown_ += text;
    return;
  }
  open_spans(is_escaped ? begin - 1 : begin);
  if (images_ > 0) return;
  if (type == MD_TEXT_HTML) return take_html(begin, end);
  if (!html_.empty()) {
    shown_ += text;
    return;
  }
  if (type == MD_TEXT_ENTITY) {
    const CharacterReference found = character_reference(text, 0, /*old_names=*/false);
    if (found.length == text.size()) return flow_.characters(begin, end, found.text);
    return flow_.fixed(begin, end, text);
  }
  if (!is_escaped) return take_words(begin, end);
  flow_.characters(begin - 1, begin + 1, source_.substr(begin, 1));
  take_words(begin + 1, end);
}

}  // namespace

void read_markdown(DocumentFlow& flow) {
  const std::string_view source = flow.source();
  if (source.size() > std::numeric_limits<MD_SIZE>::max() / 2) return;
  MarkdownReader(flow).read(end_of_front_matter(source));
}

}  // namespace tandem
