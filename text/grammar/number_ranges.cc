#include "text/grammar/number_ranges.h"

#include <string>
#include <string_view>
#include <vector>

namespace tandem {
namespace {

using Ref = Grammar::Ref;

// Of values that are not negative.
class Digits {
 public:
  explicit Digits(Grammar& grammar) : g_(grammar) {}

  Ref between(uint64_t least, std::optional<uint64_t> most) {
    std::vector<Ref> ways;
    if (most && *most < least) return g_.impossible();
    std::string low = std::to_string(least);
    const std::string high = most ? std::to_string(*most) : std::string();
    while (most ? low.size() < high.size() : ways.empty()) {
      ways.push_back(same_length(low, std::string(low.size(), '9')));
      low = "1" + std::string(low.size(), '0');
    }
    if (most)
      ways.push_back(same_length(low, high));
    else
      ways.push_back(g_.sequence(
          {digit('1', '9'), g_.repeat(any(), static_cast<int64_t>(low.size()) - 1, std::nullopt)}));
    return g_.alternatives(std::move(ways));
  }
  Ref digit(char first, char last) { return g_.characters(icu::UnicodeSet(first, last)); }
  Ref any() { return digit('0', '9'); }

 private:
  Ref any(size_t count) {
    return g_.repeat(any(), static_cast<int64_t>(count), static_cast<int64_t>(count));
  }
  Ref same_length(std::string_view low, std::string_view high) {
    if (low.empty()) return g_.nothing();
    const std::string zeros(low.size() - 1, '0'), nines(low.size() - 1, '9');
    if (low.substr(1) == zeros && high.substr(1) == nines)
      return g_.sequence({digit(low[0], high[0]), any(low.size() - 1)});
    if (low[0] == high[0])
      return g_.sequence({digit(low[0], low[0]), same_length(low.substr(1), high.substr(1))});
    std::vector<Ref> ways{
        g_.sequence({digit(low[0], low[0]), same_length(low.substr(1), nines)}),
        g_.sequence({digit(high[0], high[0]), same_length(zeros, high.substr(1))})};
    if (low[0] + 1 < high[0])
      ways.push_back(
          g_.sequence({digit(static_cast<char>(low[0] + 1), static_cast<char>(high[0] - 1)),
                       any(low.size() - 1)}));
    return g_.alternatives(std::move(ways));
  }

  Grammar& g_;
};

uint64_t magnitude(int64_t value) {
  return value < 0 ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
}

// Both signs: `positive` and `negative` make the texts of magnitudes between two bounds.
template <class Make>
Ref signed_range(const NumberRange& range, Grammar& g, const Make& make) {
  std::vector<Ref> ways;
  const auto& [least, most] = range;
  if (!most || *most >= 0) {
    const uint64_t low = least && *least > 0 ? magnitude(*least) : 0;
    ways.push_back(make(low, most ? std::optional(magnitude(*most)) : std::nullopt, false));
  }
  if (!least || *least < 0) {
    const uint64_t low = most && *most < 0 ? magnitude(*most) : 0;
    ways.push_back(
        g.sequence({g.character(U'-'),
                    make(low, least ? std::optional(magnitude(*least)) : std::nullopt, true)}));
  }
  return g.alternatives(std::move(ways));
}

}  // namespace

Ref integers(const NumberRange& range, Grammar& g) {
  Digits digits(g);
  const Ref any = g.alternatives(
      {g.character(U'0'),
       g.sequence({digits.digit('1', '9'), g.repeat(digits.any(), 0, std::nullopt)})});
  if (!range.least && !range.most) return g.sequence({g.optional(g.character(U'-')), any});
  if (range.least && range.most && *range.least > *range.most) return g.impossible();
  return signed_range(range, g, [&](uint64_t low, std::optional<uint64_t> high, bool negative) {
    return digits.between(negative && low == 0 ? 1 : low, high);
  });
}

Ref numbers(const NumberRange& range, Grammar& g) {
  Digits digits(g);
  const Ref some = g.repeat(digits.any(), 1, std::nullopt);
  const Ref fraction = g.optional(g.sequence({g.character(U'.'), some}));
  if (!range.least && !range.most) {
    const Ref mark = g.characters(icu::UnicodeSet(U'E', U'E').add(U'e'));
    const Ref sign = g.characters(icu::UnicodeSet(U'+', U'+').add(U'-'));
    return g.sequence(
        {integers({}, g), fraction, g.optional(g.sequence({mark, g.optional(sign), some}))});
  }
  if (range.least && range.most && *range.least > *range.most) return g.impossible();
  return signed_range(range, g, [&](uint64_t low, std::optional<uint64_t> high, bool) {
    if (!high) return g.sequence({digits.between(low, std::nullopt), fraction});
    const Ref zeros =
        g.optional(g.sequence({g.character(U'.'), g.repeat(g.character(U'0'), 1, std::nullopt)}));
    std::vector<Ref> ways{g.sequence({digits.between(*high, high), zeros})};
    if (low < *high) ways.push_back(g.sequence({digits.between(low, *high - 1), fraction}));
    return g.alternatives(std::move(ways));
  });
}

}  // namespace tandem
