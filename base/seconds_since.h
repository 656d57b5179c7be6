// How long ago something was, by the clock that only goes forward.
#pragma once

#include <chrono>

namespace tandem {

inline double seconds_since(std::chrono::steady_clock::time_point then) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - then).count();
}

}  // namespace tandem
