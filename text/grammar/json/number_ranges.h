// Decimal numbers between two bounds, as JSON writes them.
#pragma once

#include <cstdint>
#include <optional>

#include "text/grammar/grammar.h"

namespace tandem {

struct NumberRange {
  std::optional<int64_t> least, most;  // none: no bound
};

struct RealRange {
  std::optional<double> least{}, most{};  // none: no bound. Within 9e15
  bool least_open = false, most_open = false;
};

// Integers without leading zeros. Without any bound "-0" is one, too.
Grammar::Ref integers(const NumberRange& range, Grammar& grammar);
// Numbers with or without a fraction. Without any bound they may have exponents, too.
Grammar::Ref numbers(const RealRange& range, Grammar& grammar);

}  // namespace tandem
