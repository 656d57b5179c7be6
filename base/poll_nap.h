// The pace of looks at what another device or process does, where nothing wakes whoever waits.
#pragma once

#include <algorithm>
#include <chrono>

namespace tandem {

// How long to sleep before the next look, after so long a wait: what is found is late by a
// sixteenth of the wait at most, or by 50 µs.
inline std::chrono::nanoseconds poll_nap(std::chrono::nanoseconds waited) {
  using std::chrono::microseconds;
  return std::clamp<std::chrono::nanoseconds>(waited / 16, microseconds(50), microseconds(1000));
}

}  // namespace tandem
