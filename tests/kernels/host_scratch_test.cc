// The CPU's memory of steps: pages are kept from step to step, tensors keep what they hold.
#include "kernels/core/host_scratch.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "kernels/core/context.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::host_scratch_test {
namespace {

using testing::Random;

void fill(const Tensor& t, int value) { std::memset(t.raw(), value, t.bytes()); }

bool holds(const Tensor& t, int value) {
  const auto* bytes = static_cast<const unsigned char*>(t.raw());
  return std::all_of(bytes, bytes + t.bytes(), [&](unsigned char b) { return b == value; });
}

// Tensors live as long as somebody holds them, over steps, views and threads; nobody else gets
// their bytes meanwhile.
TEST(HostScratch, TensorsKeepTheirBytes) {
  Random random;
  HostScratch scratch;
  struct Held {
    Tensor tensor;
    int value;
  };
  std::vector<Held> held;
  for (int i = 0; i < 4000; ++i) {
    if (held.size() < 40 && random.integer(0, 2) > 0) {
      const int64_t rows = random.integer(0, 70), columns = random.integer(1, i < 2000 ? 60 : 9000);
      const Tensor t = scratch.make({rows, columns}, random.pick({DType::kF32, DType::kU8}));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(t.raw()) % 64, 0u);
      held.push_back({t, i % 251});
      fill(held.back().tensor, held.back().value);
    } else if (!held.empty()) {
      const auto at = held.begin() + random.integer(0, std::ssize(held) - 1);
      ASSERT_TRUE(holds(at->tensor, at->value));
      if (random.integer(0, 9) == 0) std::thread([gone = std::move(at->tensor)] {}).join();
      held.erase(at);
    }
    if (i % 100 == 0) scratch.check_integrity();
    if (i % 1000 == 999) held.clear();
  }
  held.clear();
  EXPECT_EQ(scratch.used(), 0u);
  scratch.check_integrity();
}

TEST(HostScratch, OutlivedByItsTensors) {
  Tensor t;
  {
    HostScratch scratch;
    t = scratch.make({1000}, DType::kF32).rows(10, 20);
  }
  fill(t, 7);
  EXPECT_TRUE(holds(t, 7));
}

// What a step took is what the next one takes, in the same places.
TEST(HostScratch, GrowsToTheLargestStep) {
  Context ctx(1);
  const auto step = [&] {
    std::vector<Tensor> all;
    for (int64_t i = 1; i <= 20; ++i) all.push_back(ctx.make({i, 50'000}));
    EXPECT_GE(ctx.host_scratch().used(), 210u * 200'000);
    std::set<const void*> places;
    for (const Tensor& t : all) {
      fill(t, 1);
      places.insert(t.raw());
    }
    return places;
  };
  step();
  const auto second = step();
  const size_t bytes = ctx.host_scratch().bytes();
  EXPECT_LT(bytes, 3u * 210 * 200'000);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(step(), second);
  EXPECT_EQ(ctx.host_scratch().bytes(), bytes);
}

int64_t minor_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// Steps of a size that was there once take no fresh page from the kernel, which would have to zero
// it.
TEST(HostScratch, NoFreshPages) {
  Context ctx(1);
  const auto step = [&] {
    for (int layer = 0; layer < 4; ++layer) {
      const Tensor x = ctx.make({512, 1024}), y = ctx.make({512, 4096});
      fill(x, layer);
      fill(y, layer);
    }
  };
  step();
  const int64_t before = minor_faults();
  for (int i = 0; i < 10; ++i) step();
  EXPECT_LT(minor_faults() - before, 100);  // fresh, they are 10 MiB a layer
}

}  // namespace
}  // namespace tandem::host_scratch_test
