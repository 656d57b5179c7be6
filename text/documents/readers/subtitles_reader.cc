// SubRip and WebVTT: blocks between blank lines. What has a line of times is a cue, whose text is
// what follows; all else stays: numbers, names, settings, NOTE, STYLE and REGION.
#include <algorithm>
#include <string_view>
#include <utility>

#include "text/documents/readers/document_readers.h"
#include "text/documents/readers/html_entities.h"

namespace tandem {
namespace {

struct SourceLine {
  size_t begin, end;  // without the line end
  size_t next;        // where the next line begins
};

SourceLine line_at(std::string_view source, size_t at) {
  const size_t end = std::min(source.find_first_of("\n\r", at), source.size());
  size_t next = std::min(end + 1, source.size());
  if (source.substr(end).starts_with("\r\n")) ++next;
  return {at, end, next};
}

bool is_blank_line(std::string_view line) { return line.find_first_not_of(" \t") == line.npos; }

// "00:00:01,500 --> 00:00:03,000"
bool is_times(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  return first != line.npos && line[first] >= '0' && line[first] <= '9' &&
         line.find("-->") != line.npos;
}

bool begins_speech(std::string_view line) {
  const size_t first = line.find_first_not_of(" \t");
  if (first == line.npos) return false;
  return line[first] == '-' || line.substr(first).starts_with("\xE2\x80\x93") ||
         line.substr(first).starts_with("\xE2\x80\x94");
}

class CueReader {
 public:
  explicit CueReader(DocumentFlow& flow) : flow_(flow), source_(flow.source()) {}

  // Of a line of the cue's text.
  void read_line(size_t begin, size_t end) {
    size_t from = begin;
    for (size_t at = begin; at < end;) {
      const size_t length = markup_length(at, end);
      const CharacterReference found = source_[at] == '&'
                                           ? character_reference(source_.substr(0, end), at)
                                           : CharacterReference();
      if (length == 0 && found.length == 0) {
        ++at;
        continue;
      }
      flow_.text(from, at);
      if (length > 0)
        tag(at, at + length);
      else
        flow_.characters(at, at + found.length, found.text);
      from = at = at + std::max(length, found.length);
    }
    flow_.text(from, end);
  }
  void end() {
    flow_.boundary();
    open_.clear();
  }

 private:
  // "<i>", "<c.red>", "<00:00:01.000>", "{\an8}".
  size_t markup_length(size_t at, size_t end) const {
    constexpr size_t kLongest = 512;
    const std::string_view rest = source_.substr(at, std::min(end - at, kLongest));
    if (!rest.starts_with('<') && !rest.starts_with("{\\")) return 0;
    const char next = rest.size() > 1 ? rest[1] : ' ';
    const bool is_tag = next == '/' || next == '\\' || (next >= '0' && next <= '9') ||
                        (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z');
    const size_t close = is_tag ? rest.find(rest[0] == '<' ? '>' : '}') : rest.npos;
    return close == rest.npos ? 0 : close + 1;
  }
  void tag(size_t begin, size_t end) {
    const std::string_view inside = source_.substr(begin + 1, end - begin - 2);
    const bool closes = inside.starts_with('/');
    const std::string_view from = inside.substr(closes ? 1 : 0);
    const std::string_view name = from.substr(0, from.find_first_of(" \t.>"));
    const bool is_name = source_[begin] == '<' && !name.empty() && (name[0] < '0' || name[0] > '9');
    if (!is_name) return flow_.point(begin, end);
    if (!closes) {
      open_.emplace_back(name, flow_.open(begin, end));
      return;
    }
    int pair = -1;
    for (size_t i = open_.size(); i-- > 0 && pair < 0 && open_.size() - i < 64;) {
      if (open_[i].first != name) continue;
      pair = open_[i].second;
      open_.erase(open_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    flow_.close(begin, end, pair);
  }

  DocumentFlow& flow_;
  const std::string_view source_;
  std::vector<std::pair<std::string_view, int>> open_;
};

}  // namespace

void read_subtitles(DocumentFlow& flow) {
  const std::string_view source = flow.source();
  const auto text_of = [&](const SourceLine& line) {
    return source.substr(line.begin, line.end - line.begin);
  };
  CueReader cue(flow);
  size_t at = 0;
  while (at < source.size()) {
    // The line of times is the first of its block, or behind a number or a name.
    SourceLine line = line_at(source, at);
    const bool is_note = text_of(line).starts_with("NOTE") || text_of(line).starts_with("WEBVTT");
    if (!is_note && !is_times(text_of(line)) && !is_blank_line(text_of(line)) &&
        line.next < source.size())
      line = line_at(source, line.next);
    if (is_note || !is_times(text_of(line))) {
      while (line.begin < source.size() && !is_blank_line(text_of(line))) {
        if (line.next >= source.size()) return;
        line = line_at(source, line.next);
      }
      at = line.next;
      continue;
    }
    at = line.next;
    for (bool first = true; at < source.size(); first = false) {
      line = line_at(source, at);
      if (is_blank_line(text_of(line))) break;
      if (!first && begins_speech(text_of(line)))
        cue.end();
      else if (!first && flow.in_block())
        flow.line(at - (source.substr(at - 2, 2) == "\r\n" ? 2 : 1), at);
      cue.read_line(line.begin, line.end);
      at = line.next;
    }
    cue.end();
  }
}

}  // namespace tandem
