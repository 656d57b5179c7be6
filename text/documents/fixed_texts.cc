#include "text/documents/fixed_texts.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace tandem {
namespace {

using Kind = InlinePart::Kind;
using Parts = std::vector<InlinePart>;

// The old parts are copied into the new ones, up to a match, then the match, and so on.
class FixedTexts {
 public:
  FixedTexts(std::string& text, Parts& parts)
      : old_text_(std::move(text)), old_parts_(std::move(parts)), text_(text), parts_(parts) {
    text_.clear();
    parts_.clear();
  }

  void fix(const GlossaryMatch& match) {
    const auto found = parts_of(match);
    if (!found) return;
    const InlinePart &first = old_parts_[found->first], &last = old_parts_[found->second];
    keep_until(match.begin);
    InlinePart fixed;
    fixed.kind = Kind::kFixed;
    fixed.begin =
        first.kind == Kind::kText ? first.begin + (match.begin - first.text_begin) : first.begin;
    fixed.end = last.kind == Kind::kText ? last.end - (last.text_end - match.end) : last.end;
    fixed.text_begin = text_.size();
    fixed.is_term = !match.target.empty();
    fixed.written = match.target;
    text_ += fixed.is_term
                 ? match.target
                 : std::string_view(old_text_).substr(match.begin, match.end - match.begin);
    fixed.text_end = text_.size();
    parts_.push_back(std::move(fixed));
    next_ = last.text_end <= match.end ? found->second + 1 : found->second;
    at_ = match.end;
  }

  // Of the old text.
  void keep_until(size_t end) {
    for (; next_ < old_parts_.size() && old_parts_[next_].text_end <= end; ++next_) {
      const InlinePart& part = old_parts_[next_];
      if (part.text_begin == part.text_end || at_ < part.text_end)
        keep(part, std::min(std::max(at_, part.text_begin), part.text_end), part.text_end);
      at_ = std::max(at_, part.text_end);
    }
    if (next_ < old_parts_.size() && old_parts_[next_].text_begin < end && at_ < end) {
      keep(old_parts_[next_], std::max(at_, old_parts_[next_].text_begin), end);
      at_ = end;
    }
  }

 private:
  // The first and the last of the parts that a match is in. Nothing: it cannot be cut out.
  std::optional<std::pair<size_t, size_t>> parts_of(const GlossaryMatch& match) const {
    const auto first = std::partition_point(
        old_parts_.begin() + static_cast<std::ptrdiff_t>(next_), old_parts_.end(),
        [&](const InlinePart& part) { return part.text_end <= match.begin; });
    auto last = first;
    for (; last != old_parts_.end() && last->text_begin < match.end; ++last) {
      const bool may_be = last->kind == Kind::kText ||
                          (last->kind == Kind::kCharacters && last->text_begin >= match.begin &&
                           last->text_end <= match.end);
      if (!may_be) return std::nullopt;
    }
    if (last == first) return std::nullopt;
    return std::pair(static_cast<size_t>(first - old_parts_.begin()),
                     static_cast<size_t>(last - old_parts_.begin()) - 1);
  }

  void keep(InlinePart part, size_t from, size_t until) {
    if (part.kind == Kind::kText) {
      part.begin += from - part.text_begin;
      part.end = part.begin + (until - from);
    }
    part.text_begin = text_.size();
    text_ += std::string_view(old_text_).substr(from, until - from);
    part.text_end = text_.size();
    parts_.push_back(std::move(part));
  }

  const std::string old_text_;
  const Parts old_parts_;
  std::string& text_;
  Parts& parts_;
  size_t next_ = 0, at_ = 0;  // what has been kept: of the old parts, of the old text
};

}  // namespace

void fix_texts(const std::vector<GlossaryMatch>& matches, std::string& text,
               std::vector<InlinePart>& parts) {
  FixedTexts fixed(text, parts);
  for (const GlossaryMatch& match : matches) fixed.fix(match);
  fixed.keep_until(std::string::npos);
}

}  // namespace tandem
