// The emulator's bulk copies and the barriers that count their bytes; what it must not hide.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/cuda/hardware/bulk_copy.cuh"
#include "kernels/cuda/launch.cuh"
#include "tests/support/ranks/device_array.h"

namespace tandem::cuda {
namespace {

constexpr int kCopyThreads = 64, kPlaces = 2, kInts = 64;  // of a place

// What a kernel of the tests below gets wrong.
enum class CopyFault {
  kNone,
  kNotMade,
  kNotSaid,  // copy_barriers_made is left out
  kMadeTwice,
  kMisaligned,
  kOddBytes,
  kNotShared,
  kFewExpected,
  kManyExpected,
  kNotWaited,   // for the bytes, before they are taken
  kNotMet,      // the readers, before a place is filled again
  kLateReader,  // comes when its place is being filled again
  kLeftBehind,  // copies when the block ends
  kSamePlace,
  kTooManyArrive
};

// Rounds of kInts go through places in turn; each thread adds up what it finds.
template <CopyFault kFault>
__global__ void ring(const int* in, int rounds, int* out) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  __shared__ CopyBarrier full[kPlaces], left[kPlaces];
  int* const places = reinterpret_cast<int*>(shared);
  const bool sends = threadIdx.x == 0;
  constexpr uint32_t kBytes = kInts * sizeof(int);
  if (sends) {
    for (int i = 0; i < kPlaces && kFault != CopyFault::kNotMade; ++i) {
      make_copy_barrier(&full[i], 1);
      if (kFault == CopyFault::kMadeTwice) make_copy_barrier(&full[i], 1);
      make_copy_barrier(&left[i], kCopyThreads);
    }
    if (kFault != CopyFault::kNotSaid) copy_barriers_made();
  }
  __syncthreads();
  const auto fill = [&](int round) {
    const int place = round % kPlaces;
    uint32_t expected = kBytes;
    if (kFault == CopyFault::kFewExpected) expected -= 16;
    if (kFault == CopyFault::kManyExpected) expected += 16;
    arrive_and_expect(&full[place], expected);
    if (kFault == CopyFault::kTooManyArrive) arrive(&full[place]);
    int* to = places + (kFault == CopyFault::kSamePlace ? 0 : place * kInts);
    if (kFault == CopyFault::kNotShared) to = out;
    const int* from = in + round * kInts + (kFault == CopyFault::kMisaligned ? 1 : 0);
    // In two parts, which may come in any order.
    bulk_copy(to, from, kFault == CopyFault::kOddBytes ? 12 : 64, &full[place]);
    bulk_copy(to + 16, from + 16, kBytes - 64, &full[place]);
  };
  for (int round = 0; round < kPlaces && sends; ++round) fill(round);
  int sum = 0;
  for (int round = 0; round < rounds; ++round) {
    const int place = round % kPlaces;
    const uint32_t parity = round / kPlaces % 2;
    const bool late = kFault == CopyFault::kLateReader && threadIdx.x == 40;
    const auto take = [&] { sum += places[place * kInts + (threadIdx.x + round) % kInts]; };
    if (kFault == CopyFault::kNotWaited) take();
    if (!late) wait_for_phase(&full[place], parity);
    if (late) {
      arrive(&left[place]);
      for (int i = 0; i < 200; ++i) __nanosleep(1);
      wait_for_phase(&full[place], parity);
    }
    if (kFault != CopyFault::kNotWaited) take();
    if (!late) arrive(&left[place]);
    if (sends && round + kPlaces < rounds) {
      if (kFault != CopyFault::kNotMet) wait_for_phase(&left[place], parity);
      fill(round + kPlaces);
    }
  }
  out[threadIdx.x] = sum;
  if (kFault == CopyFault::kLeftBehind) {
    __syncthreads();
    for (int i = 0; i < 200 && sends; ++i) __nanosleep(1);  // until the others have ended
    if (sends) fill(rounds);
  }
}

template <CopyFault kFault>
std::vector<int> sums(int rounds) {
  std::vector<int> in((rounds + 1) * kInts + 4);
  std::iota(in.begin(), in.end(), 1);
  DeviceArray<int> device(in), out(kCopyThreads);
  TANDEM_LAUNCH(ring<kFault>, 1, kCopyThreads, kPlaces * kInts * sizeof(int), nullptr, device.get(),
                rounds, out.get());
  return out.values();
}

std::vector<int> expected(int rounds) {
  std::vector<int> want(kCopyThreads);
  for (int t = 0; t < kCopyThreads; ++t)
    for (int round = 0; round < rounds; ++round)
      want[static_cast<size_t>(t)] += 1 + round * kInts + (t + round) % kInts;
  return want;
}

TEST(CudaEmulatorCopies, ComeWhoeverRunsFirst) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    cuda_emulator::set_seed(seed);
    for (const int rounds : {2, 3, 7}) ASSERT_EQ(sums<CopyFault::kNone>(rounds), expected(rounds));
  }
  cuda_emulator::set_seed(1);
}

TEST(CudaEmulatorCopies, AMissingWaitShows) {
  EXPECT_NE(sums<CopyFault::kNotWaited>(2), expected(2));
}

TEST(CudaEmulatorCopiesDeathTest, Barriers) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(sums<CopyFault::kNotMade>(2), "no copy barrier is there");
  EXPECT_DEATH(sums<CopyFault::kNotSaid>(2), "copy_barriers_made was not called");
  EXPECT_DEATH(sums<CopyFault::kMadeTwice>(2), "a copy barrier is made twice");
  EXPECT_DEATH(sums<CopyFault::kTooManyArrive>(2), "more arrivals than");
}

TEST(CudaEmulatorCopiesDeathTest, Copies) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(sums<CopyFault::kMisaligned>(2), "not 16-byte aligned");
  EXPECT_DEATH(sums<CopyFault::kOddBytes>(2), "no multiple of 16 bytes");
  EXPECT_DEATH(sums<CopyFault::kNotShared>(2), "to what is not shared memory");
  // (If the first has come, and nobody has waited for it yet, only what is read is wrong.)
  const auto to_one_place = [] {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      cuda_emulator::set_seed(seed);
      sums<CopyFault::kSamePlace>(2);
    }
  };
  EXPECT_DEATH(to_one_place(), "two bulk copies to one place|has not been met since");
  EXPECT_DEATH(sums<CopyFault::kLeftBehind>(2), "a block ends while bulk copies are under way");
}

TEST(CudaEmulatorCopiesDeathTest, Bytes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(sums<CopyFault::kFewExpected>(2), "more bytes come than a copy barrier expects");
  EXPECT_DEATH(sums<CopyFault::kManyExpected>(2),
               "deadlock: 64 threads wait(.|\n)*a wait for a copy barrier(.|\n)*"
               "lacks 0 arrivals and 16 bytes of phase 0");
}

TEST(CudaEmulatorCopiesDeathTest, PlacesThatAreFilledAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(sums<CopyFault::kNotMet>(4),
               "who waited for what was there, has not been met since");
  EXPECT_DEATH(sums<CopyFault::kLateReader>(4), "whose place is being filled again");
}

}  // namespace
}  // namespace tandem::cuda
