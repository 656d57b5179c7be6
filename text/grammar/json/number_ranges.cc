#include "text/grammar/json/number_ranges.h"

#include <algorithm>
#include <charconv>
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

namespace {

// A bound that is not negative, in decimal: `fraction` has no zeros at its end.
struct Decimal {
  explicit Decimal(double value) {
    char text[400];
    const auto end = std::to_chars(text, text + sizeof text, value, std::chars_format::fixed).ptr;
    const std::string all(text, end);
    const size_t point = std::min(all.find('.'), all.size());
    whole = std::stoull(all.substr(0, point));
    if (point < all.size()) fraction = all.substr(point + 1);
    while (fraction.ends_with('0')) fraction.pop_back();
  }
  uint64_t whole = 0;
  std::string fraction;
  bool open = false;
};

// What may stand behind a whole number: nothing, or a point and digits.
class Fractions {
 public:
  explicit Fractions(Grammar& grammar) : g_(grammar), digits_(grammar) {
    any_ = g_.repeat(digits_.any(), 0, std::nullopt);
    zeros_ = g_.repeat(g_.character(U'0'), 0, std::nullopt);
  }

  Ref all() { return g_.optional(behind_point(g_.repeat(digits_.any(), 1, std::nullopt))); }
  Ref from(const Decimal& low) {
    if (low.fraction.empty() && !low.open) return all();
    return behind_point(from(low, 0));
  }
  Ref up_to(const Decimal& high) {
    const Ref some = behind_point(up_to(high, 0));
    return high.fraction.empty() && high.open ? some : g_.optional(some);
  }
  Ref between(const Decimal& low, const Decimal& high) {
    const Ref some = behind_point(between(low, high, 0));
    const bool zero = low.fraction.empty() && !low.open && !(high.fraction.empty() && high.open);
    return zero ? g_.optional(some) : some;
  }

 private:
  Ref behind_point(Ref digits) { return g_.sequence({g_.character(U'.'), digits}); }

  // Digits from the i-th one on, behind those of the bounds.
  Ref from(const Decimal& low, size_t i) {
    if (i >= low.fraction.size())
      return low.open ? g_.sequence({zeros_, digits_.digit('1', '9'), any_}) : any_;
    const char digit = low.fraction[i];
    std::vector<Ref> ways{g_.sequence({digits_.digit(digit, digit), from(low, i + 1)})};
    if (digit < '9') ways.push_back(g_.sequence({digits_.digit(digit + 1, '9'), any_}));
    return g_.alternatives(std::move(ways));
  }
  Ref up_to(const Decimal& high, size_t i) {
    if (i >= high.fraction.size()) {
      if (high.open) return g_.impossible();
      return i == 0 ? g_.repeat(g_.character(U'0'), 1, std::nullopt) : zeros_;
    }
    const char digit = high.fraction[i];
    std::vector<Ref> ways{g_.sequence({digits_.digit(digit, digit), up_to(high, i + 1)})};
    if (digit > '0') ways.push_back(g_.sequence({digits_.digit('0', digit - 1), any_}));
    if (i > 0) ways.push_back(g_.nothing());
    return g_.alternatives(std::move(ways));
  }
  Ref between(const Decimal& low, const Decimal& high, size_t i) {
    if (i >= high.fraction.size())
      return low.open || i < low.fraction.size() ? g_.impossible() : up_to(high, i);
    const char first = i < low.fraction.size() ? low.fraction[i] : '0', last = high.fraction[i];
    if (first > last) return g_.impossible();
    std::vector<Ref> ways;
    if (i > 0 && i >= low.fraction.size() && !low.open) ways.push_back(g_.nothing());
    if (first == last) {
      ways.push_back(g_.sequence({digits_.digit(first, first), between(low, high, i + 1)}));
    } else {
      ways.push_back(g_.sequence({digits_.digit(first, first), from(low, i + 1)}));
      ways.push_back(g_.sequence({digits_.digit(last, last), up_to(high, i + 1)}));
      if (first + 1 < last) ways.push_back(g_.sequence({digits_.digit(first + 1, last - 1), any_}));
    }
    return g_.alternatives(std::move(ways));
  }

  Grammar& g_;
  Digits digits_;
  Ref any_, zeros_;  // any number of digits, or of zeros
};

Ref magnitudes(const Decimal& low, const std::optional<Decimal>& high, Grammar& g) {
  Digits digits(g);
  Fractions fractions(g);
  const auto whole = [&](uint64_t value) { return digits.between(value, value); };
  if (high && high->whole < low.whole) return g.impossible();
  if (high && high->whole == low.whole)
    return g.sequence({whole(low.whole), fractions.between(low, *high)});
  std::vector<Ref> ways{g.sequence({whole(low.whole), fractions.from(low)})};
  if (high) ways.push_back(g.sequence({whole(high->whole), fractions.up_to(*high)}));
  if (!high)
    ways.push_back(g.sequence({digits.between(low.whole + 1, std::nullopt), fractions.all()}));
  else if (low.whole + 1 < high->whole)
    ways.push_back(g.sequence({digits.between(low.whole + 1, high->whole - 1), fractions.all()}));
  return g.alternatives(std::move(ways));
}

}  // namespace

Ref numbers(const RealRange& range, Grammar& g) {
  const auto& [least, most, least_open, most_open] = range;
  if (!least && !most) {
    Digits digits(g);
    const Ref mark = g.characters(icu::UnicodeSet(U'E', U'E').add(U'e'));
    const Ref sign = g.characters(icu::UnicodeSet(U'+', U'+').add(U'-'));
    const Ref some = g.repeat(digits.any(), 1, std::nullopt);
    return g.sequence({integers({}, g), Fractions(g).all(),
                       g.optional(g.sequence({mark, g.optional(sign), some}))});
  }
  // `inner`: the bound on the side of zero, if it is there and on this side of it.
  const auto side = [&](std::optional<double> inner, bool inner_open, std::optional<double> outer,
                        bool outer_open) {
    Decimal low(inner.value_or(0));
    low.open = inner && inner_open;
    if (!outer) return magnitudes(low, std::nullopt, g);
    Decimal high(*outer);
    high.open = outer_open;
    return magnitudes(low, high, g);
  };
  const auto if_not_negative = [](std::optional<double> value) {
    return value && *value >= 0 ? value : std::nullopt;
  };
  const auto negated = [](std::optional<double> value) {
    return value ? std::optional(0 - *value) : std::nullopt;
  };
  std::vector<Ref> ways;
  if (!most || *most >= 0)
    ways.push_back(side(if_not_negative(least), least_open, most, most_open));
  if (!least || *least < 0)
    ways.push_back(g.sequence({g.character(U'-'), side(if_not_negative(negated(most)), most_open,
                                                       negated(least), least_open)}));
  return g.alternatives(std::move(ways));
}

}  // namespace tandem
