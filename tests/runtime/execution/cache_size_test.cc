// What a user is told of a cache that does not fit the memory.
#include "runtime/execution/cache_size.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem::cache_size_test {
namespace {

constexpr size_t kGib = size_t{1} << 30;

TEST(CacheWarning, OnlyOfMoreThanIsFree) {
  EXPECT_EQ(cache_warning(0, 0), "");
  EXPECT_EQ(cache_warning(kGib, kGib), "");
  const std::string warning = cache_warning(200 * kGib, 15 * kGib + kGib / 2);
  EXPECT_EQ(warning.find("--kv-cache-memory: the cache may grow to 200.0 GiB"), 0u) << warning;
  EXPECT_NE(warning.find("only 15.5 GiB"), std::string::npos) << warning;
}

}  // namespace
}  // namespace tandem::cache_size_test
