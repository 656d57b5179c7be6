// The pace of polling another device or process, where nothing wakes the waiter.
#pragma once

#include <algorithm>
#include <chrono>

namespace tandem {

// How long to sleep before the next poll, after waiting that long. The result is late by at most a
// sixteenth of the wait, or 50 µs.
inline std::chrono::nanoseconds poll_nap(std::chrono::nanoseconds waited) {
  using std::chrono::microseconds;
  return std::clamp<std::chrono::nanoseconds>(waited / 16, microseconds(50), microseconds(1000));
}

}  // namespace tandem
