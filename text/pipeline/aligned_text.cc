#include "text/pipeline/aligned_text.h"

#include <algorithm>

#include "base/strings/utf8.h"

namespace tandem {

std::vector<AlignedText::Change> unchanged(std::string_view text) {
  std::vector<AlignedText::Change> out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    out.push_back({c.value, 0});
    at += static_cast<size_t>(c.length);
  }
  return out;
}

AlignedText::AlignedText(std::string_view input) : text_(input), input_size_(input.size()) {
  origins_.reserve(input.size());
  for (size_t at = 0; at < input.size();) {
    const size_t end = at + static_cast<size_t>(code_point_at(input, at).length);
    origins_.insert(origins_.end(), end - at, Origin{at, end});
    at = end;
  }
}

AlignedText::Origin AlignedText::origin_before(size_t at) const {
  return at == 0 ? Origin{0, 0} : origins_[at - 1];
}

bool AlignedText::from_input(Range& range) const {
  range = {0, 0};
  if (input_size_ == 0) return true;
  bool begins = false, ends = false;
  for (size_t i = 0; i < origins_.size() && origins_[i].end <= input_size_; ++i) {
    if (!begins && origins_[i].begin != origins_[i].end) {
      range.begin = i;
      begins = true;
    }
    range.end = i + 1;
    ends = true;
  }
  if (!begins) range.begin = range.end;
  return ends;
}

void AlignedText::transform(const std::vector<Change>& changes, size_t removed_first) {
  Range range{};
  if (from_input(range)) change(range, changes, removed_first);
}

void AlignedText::change(Range range, const std::vector<Change>& changes, size_t removed_first) {
  size_t at = range.begin;  // of the character that is replaced next
  const auto pass = [&](size_t characters) {
    for (; characters > 0 && at < range.end; --characters)
      at += static_cast<size_t>(code_point_at(text_, at).length);
  };
  pass(removed_first);
  std::string text;
  std::vector<Origin> origins;
  text.reserve(range.end - range.begin);
  origins.reserve(range.end - range.begin);
  for (const Change& next : changes) {
    if (next.change <= 0 && at >= origins_.size()) throw Misaligned();
    const Origin origin = next.change > 0 ? origin_before(at) : origins_[at];
    append_utf8(next.character, text);
    origins.resize(text.size(), origin);
    if (next.change <= 0) pass(1 + static_cast<size_t>(-next.change));
  }
  const auto splice = [&](auto& whole, const auto& part) {
    const auto begin = whole.begin() + static_cast<ptrdiff_t>(range.begin);
    const auto place = whole.erase(begin, begin + static_cast<ptrdiff_t>(range.end - range.begin));
    whole.insert(place, part.begin(), part.end());
  };
  splice(text_, text);
  splice(origins_, origins);
}

void AlignedText::prepend(std::string_view before) {
  if (text_.empty()) return;
  std::vector<Change> changes = unchanged(before);
  for (size_t i = 1; i < changes.size(); ++i) changes[i].change = 1;
  const CodePoint first = code_point_at(text_, 0);
  changes.push_back({first.value, 1});
  change({0, static_cast<size_t>(first.length)}, changes, 0);
}

void AlignedText::replace(const std::vector<Span>& spans, std::string_view content) {
  std::string text;
  std::vector<Origin> origins;
  for (const Span& span : spans) {
    if (span.matched) {
      text += content;
      origins.resize(text.size(), origin_before(span.end));
      continue;
    }
    text.append(text_, span.start, span.end - span.start);
    origins.insert(origins.end(), origins_.begin() + static_cast<ptrdiff_t>(span.start),
                   origins_.begin() + static_cast<ptrdiff_t>(span.end));
  }
  text_ = std::move(text);
  origins_ = std::move(origins);
}

AlignedText AlignedText::slice(size_t begin, size_t end) const {
  Origin part{begin, end};
  if (begin < end) part = {origins_[begin].begin, origins_[end - 1].end};
  AlignedText out;
  out.text_ = text_.substr(begin, end - begin);
  out.shift_ = shift_ + part.begin;
  if (part.begin <= part.end && part.end <= input_size_) out.input_size_ = part.end - part.begin;
  out.origins_.reserve(end - begin);
  for (size_t i = begin; i < end; ++i)
    out.origins_.push_back({origins_[i].begin - part.begin, origins_[i].end - part.begin});
  return out;
}

}  // namespace tandem
