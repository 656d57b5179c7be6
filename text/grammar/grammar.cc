#include "text/grammar/grammar.h"

#include <algorithm>
#include <utility>

#include "base/strings/utf8.h"
#include "text/grammar/grammar_error.h"

namespace tandem {
namespace {

constexpr size_t kMaxExpressions = 200000;  // and as many parts of them
constexpr char32_t kFirstSurrogate = 0xd800, kLastSurrogate = 0xdfff, kLastCharacter = 0x10ffff;

}  // namespace

const icu::UnicodeSet& all_characters() {
  static const icu::UnicodeSet all = [] {
    icu::UnicodeSet set(0, static_cast<UChar32>(kLastCharacter));
    set.remove(static_cast<UChar32>(kFirstSurrogate), static_cast<UChar32>(kLastSurrogate));
    return set;
  }();
  return all;
}

Grammar::Ref Grammar::add(Expression expression) {
  parts_ += expression.parts.size();
  if (expressions_.size() >= kMaxExpressions || parts_ > 2 * kMaxExpressions)
    throw grammar_explodes("more than " + std::to_string(kMaxExpressions) + " parts");
  expressions_.push_back(std::move(expression));
  return static_cast<Ref>(expressions_.size()) - 1;
}

Grammar::Ref Grammar::of_class(CharacterClass ranges) {
  std::vector<char32_t> key;
  for (const auto& [first, last] : ranges) {
    key.push_back(first);
    key.push_back(last);
  }
  const auto [it, is_new] = known_.try_emplace(std::move(key), static_cast<int32_t>(known_.size()));
  if (is_new) classes_.push_back(std::move(ranges));
  return add({.kind = Kind::kCharacters, .index = it->second, .parts = {}});
}

Grammar::Ref Grammar::characters(const icu::UnicodeSet& set) {
  CharacterClass ranges;
  const auto put = [&](char32_t first, char32_t last) {
    if (first <= last) ranges.push_back({first, last});
  };
  for (int32_t i = 0; i < set.getRangeCount(); ++i) {
    const auto first = static_cast<char32_t>(set.getRangeStart(i));
    const auto last = static_cast<char32_t>(set.getRangeEnd(i));
    put(first, std::min<char32_t>(last, kFirstSurrogate - 1));
    put(std::max<char32_t>(first, kLastSurrogate + 1), last);
  }
  return of_class(std::move(ranges));
}

Grammar::Ref Grammar::character(char32_t c) {
  if (c > kLastCharacter || (c >= kFirstSurrogate && c <= kLastSurrogate)) return of_class({});
  return of_class({{c, c}});
}

Grammar::Ref Grammar::text(std::string_view utf8) {
  std::vector<Ref> parts;
  for (size_t at = 0; at < utf8.size();) {
    const CodePoint c = code_point_at(utf8, at);
    parts.push_back(character(static_cast<char32_t>(c.value)));
    at += static_cast<size_t>(c.length);
  }
  return sequence(std::move(parts));
}

Grammar::Ref Grammar::sequence(std::vector<Ref> parts) {
  if (parts.size() == 1) return parts[0];
  return add({.kind = Kind::kSequence, .parts = std::move(parts)});
}

Grammar::Ref Grammar::alternatives(std::vector<Ref> parts) {
  if (parts.size() == 1) return parts[0];
  return add({.kind = Kind::kAlternatives, .parts = std::move(parts)});
}

Grammar::Ref Grammar::repeat(Ref part, int64_t least, std::optional<int64_t> most) {
  return add({.kind = Kind::kRepeat, .least = least, .most = most.value_or(-1), .parts = {part}});
}

int Grammar::add_rule() {
  if (rules_.size() >= kMaxExpressions) throw grammar_explodes("too many rules");
  rules_.push_back(-1);
  return static_cast<int>(rules_.size()) - 1;
}

void Grammar::define(int rule, Ref body) { rules_[static_cast<size_t>(rule)] = body; }

Grammar::Ref Grammar::rule(int rule) {
  return add({.kind = Kind::kRule, .index = rule, .parts = {}});
}

}  // namespace tandem
