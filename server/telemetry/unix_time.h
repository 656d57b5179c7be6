// The time of day, as OpenTelemetry has it.
#pragma once

#include <chrono>
#include <cstdint>

namespace tandem::server {

// Since 1970.
inline int64_t unix_nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace tandem::server
