// Structures as 32-bit words, behind those that a list has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "base/check.h"

namespace tandem {

// count: room for so many structures, at least as many as there are; the rest is zeros.
template <class T>
void append_words(std::vector<int32_t>& to, const std::vector<T>& structures, size_t count) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) % sizeof(int32_t) == 0);
  TANDEM_CHECK_GE(count, structures.size());
  const size_t at = to.size();
  to.resize(at + count * (sizeof(T) / sizeof(int32_t)), 0);
  // (An empty list has no address that memcpy() may be given.)
  if (!structures.empty())
    std::memcpy(to.data() + at, structures.data(), structures.size() * sizeof(T));
}

}  // namespace tandem
