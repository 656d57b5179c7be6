// Rounds sizes of steps and products up to a short list, so that recordings and measurements are
// needed only for those.
#pragma once

#include <concepts>

namespace tandem {

// The next of the list: powers of two up to 8, above that no size grows by more than a third.
template <std::integral T>
constexpr T padded_size(T n) {
  T step = 1;
  if (n > 8) {
    step = 4;
    while (n > step * 8) step *= 2;
  } else {
    while (step < n) step *= 2;
  }
  return (n + step - 1) / step * step;
}

}  // namespace tandem
