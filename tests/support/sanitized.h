// Whether a sanitizer watches: then everything takes several times as long, and more memory.
#pragma once

namespace tandem::testing_support {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace tandem::testing_support
