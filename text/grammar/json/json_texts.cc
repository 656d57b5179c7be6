#include "text/grammar/json/json_texts.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/strings/code_points.h"
#include "text/grammar/json/number_ranges.h"

namespace tandem {
namespace {

using Ref = Grammar::Ref;
constexpr char32_t kFirstPlain = 0x20;  // those before are written as escapes

icu::UnicodeSet set_of(const char* pattern) {
  UErrorCode status = U_ZERO_ERROR;
  return {icu::UnicodeString::fromUTF8(pattern), status};
}

// Before a character that has one.
std::string escape_of(char32_t c) {
  switch (c) {
    case U'"': return "\\\"";
    case U'\\': return "\\\\";
    case U'\b': return "\\b";
    case U'\f': return "\\f";
    case U'\n': return "\\n";
    case U'\r': return "\\r";
    case U'\t': return "\\t";
    default: break;
  }
  char text[8];
  std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(c));
  return text;
}

}  // namespace

Ref JsonTexts::value() {
  if (!value_) {
    value_ = g_.add_rule();
    g_.define(*value_, g_.alternatives({object(), array(), string(0, std::nullopt), numbers({}, g_),
                                        g_.text("true"), g_.text("false"), g_.text("null")}));
  }
  return g_.rule(*value_);
}

Ref JsonTexts::object() {
  if (!object_) {
    object_ = g_.add_rule();
    g_.define(*object_,
              g_.sequence({g_.character(U'{'), g_.optional(g_.sequence({member(), members()})),
                           g_.character(U'}')}));
  }
  return g_.rule(*object_);
}

Ref JsonTexts::array() {
  if (!array_) {
    array_ = g_.add_rule();
    g_.define(*array_, list({}, value(), 0, std::nullopt));
  }
  return g_.rule(*array_);
}

Ref JsonTexts::member() {
  return g_.sequence({string(0, std::nullopt), g_.character(U':'), value()});
}

Ref JsonTexts::members() { return g_.repeat(comma(member()), 0, std::nullopt); }

Ref JsonTexts::string(int64_t least, std::optional<int64_t> most) {
  if (most && *most < least) return g_.impossible();
  return quoted(g_.repeat(character(), least, most));
}

Ref JsonTexts::string_but(const std::vector<std::string>& not_these) {
  std::vector<std::u32string> sorted;
  for (const std::string& text : not_these) sorted.push_back(code_points_of(text));
  std::sort(sorted.begin(), sorted.end());
  return quoted(rest_but(sorted, 0));
}

// `not_these` are in order, and begin with the same `given` characters.
Ref JsonTexts::rest_but(std::span<const std::u32string> not_these, size_t given) {
  icu::UnicodeSet others(all_characters());
  std::vector<Ref> ways;
  size_t first = 0;
  while (first < not_these.size() && not_these[first].size() == given) ++first;
  if (first == 0) ways.push_back(g_.nothing());
  for (size_t i = first; i < not_these.size();) {
    const char32_t c = not_these[i][given];
    size_t end = i;
    while (end < not_these.size() && not_these[end][given] == c) ++end;
    const auto one = static_cast<UChar32>(c);
    ways.push_back(g_.sequence({written(g_, icu::UnicodeSet(one, one)),
                                rest_but(not_these.subspan(i, end - i), given + 1)}));
    others.remove(one);
    i = end;
  }
  const Ref any = g_.repeat(written(g_, all_characters()), 0, std::nullopt);
  ways.push_back(g_.sequence({written(g_, others), any}));
  return g_.alternatives(std::move(ways));
}

Ref JsonTexts::constant(const nlohmann::ordered_json& value) { return g_.text(json_text(value)); }

Ref JsonTexts::character() {
  static const icu::UnicodeSet plain = set_of(R"([^\u0000-\u001f\u0022\u005c])"),
                               escapes = set_of(R"([\u0022\u005c/bfnrt])"),
                               digits = set_of("[0-9a-fA-F]"), not_d = set_of("[0-9a-cefA-CEF]"),
                               d = set_of("[dD]"), below_surrogates = set_of("[0-7]");
  const auto of = [&](const icu::UnicodeSet& set) { return g_.characters(set); };
  const auto hex = [&](int64_t count) { return g_.repeat(of(digits), count, count); };
  const Ref number = g_.alternatives(
      {g_.sequence({of(not_d), hex(3)}), g_.sequence({of(d), of(below_surrogates), hex(2)})});
  const Ref escape = g_.alternatives({of(escapes), g_.sequence({g_.character(U'u'), number})});
  return g_.alternatives({of(plain), g_.sequence({g_.character(U'\\'), escape})});
}

Ref JsonTexts::written(Grammar& grammar, const icu::UnicodeSet& set) {
  icu::UnicodeSet plain(set);
  std::vector<Ref> ways;
  const auto escape = [&](char32_t c) {
    if (!set.contains(static_cast<UChar32>(c))) return;
    plain.remove(static_cast<UChar32>(c));
    ways.push_back(grammar.text(escape_of(c)));
  };
  for (char32_t c = 0; c < kFirstPlain; ++c) escape(c);
  escape(U'"');
  escape(U'\\');
  if (ways.empty() || !plain.isEmpty()) ways.insert(ways.begin(), grammar.characters(plain));
  return grammar.alternatives(std::move(ways));
}

Ref JsonTexts::list(std::vector<Ref> first, Ref item, int64_t least, std::optional<int64_t> most) {
  const auto fixed = static_cast<int64_t>(first.size());
  least = std::max(least, fixed);
  if (most && *most < least) return g_.impossible();
  std::vector<Ref> parts;
  for (size_t i = 0; i < first.size(); ++i) parts.push_back(i == 0 ? first[0] : comma(first[i]));
  const auto more = [&](int64_t given) {
    const auto left = [&](int64_t count) { return std::max<int64_t>(count - given, 0); };
    return g_.repeat(comma(item), left(least), most ? std::optional(left(*most)) : std::nullopt);
  };
  Ref inside = g_.nothing();
  if (fixed > 0) {
    parts.push_back(more(fixed));
    inside = g_.sequence(std::move(parts));
  } else if (!most || *most > 0) {
    inside = g_.sequence({item, more(1)});
    if (least == 0) inside = g_.optional(inside);
  }
  return g_.sequence({g_.character(U'['), inside, g_.character(U']')});
}

}  // namespace tandem
