// Copies and arrivals from one block of a cluster to others, in the emulator; what it does not let
// pass.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "kernels/cuda/hardware/cluster.cuh"
#include "kernels/cuda/hardware/tensor_copy.cuh"
#include "kernels/cuda/launch.cuh"
#include "tests/support/ranks/device_array.h"

namespace tandem::cuda {
namespace {
namespace cluster_copies_test {

constexpr unsigned kBlocks = 2, kThreads = 64;
constexpr int kHalf = 8;  // rows of a box, of which each block asks for one

// What threads do wrong; or nothing.
enum class Fault {
  kNone,
  kNoFirstBarrier,
  kNoLastBarrier,
  kTellsOnlyItself,   // that the stage may be filled again: nobody goes on
  kIsNotToldByOthers  // and does not wait for it
};

struct Shared {
  alignas(kTileAlignment) unsigned char tile[kBlocks * kHalf * kTileRowBytes];
  CopyBarrier full, free;
};

// In rounds of 16 rows, of which each block brings 8 to both, threads add up a column each.
template <Fault kFault>
__global__ void columns(const TensorMap map, int rounds, int* out) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(memory);
  auto& shared =
      *reinterpret_cast<Shared*>(memory + -reinterpret_cast<uintptr_t>(memory) % kTileAlignment);
  constexpr bool kFew = kFault == Fault::kIsNotToldByOthers;
  const int rank = static_cast<int>(blockIdx.x), column = static_cast<int>(threadIdx.x);
  if (threadIdx.x == 0) {
    make_copy_barrier(&shared.full, 1);
    make_copy_barrier(&shared.free, kThreads * (kFew ? 1 : kBlocks));
    copy_barriers_made();
  }
  if (kFault == Fault::kNoFirstBarrier) {
    __syncthreads();
  } else {
    cluster_barrier();
  }
  int sum = 0;
  for (int round = 0; round < rounds; ++round) {
    const uint32_t parity = static_cast<uint32_t>(round) % 2;
    if (threadIdx.x == 0) {
      wait_for_phase(&shared.free, parity ^ 1);
      arrive_and_expect(&shared.full, sizeof(shared.tile));
      tensor_copy_to_blocks(shared.tile + rank * kHalf * kTileRowBytes, map,
                            round * 2 * kHalf + rank * kHalf, 0, &shared.full, kBlocks);
    }
    wait_for_phase(&shared.full, parity);
    for (int row = 0; row < 2 * kHalf; ++row) {
      uint16_t element;
      std::memcpy(&element,
                  shared.tile + row * kTileRowBytes + (column / 8 ^ row % 8) * 16 + column % 8 * 2,
                  sizeof element);
      sum += element;
    }
    for (unsigned block = 0; block < kBlocks; ++block) {
      const bool own = block == static_cast<unsigned>(rank);
      if (own || (kFault != Fault::kTellsOnlyItself && !kFew)) arrive_in_block(&shared.free, block);
    }
  }
  out[blockIdx.x * kThreads + threadIdx.x] = sum;
  if (kFault != Fault::kNoLastBarrier) cluster_barrier();
}

template <Fault kFault>
bool is_right(int rounds) {
  const int rows = rounds * 2 * kHalf;
  std::vector<uint16_t> matrix(static_cast<size_t>(rows) * kTileK);
  std::iota(matrix.begin(), matrix.end(), uint16_t{1});
  DeviceArray<uint16_t> there(matrix);
  DeviceArray<int> out(kBlocks * kThreads);
  TensorMap map;
  EXPECT_TRUE(make_tensor_map(map, there.get(), true, rows, kTileK, kTileRowBytes, kHalf));
  TANDEM_LAUNCH_CLUSTERS(columns<kFault>, kBlocks, kThreads, kBlocks,
                         sizeof(Shared) + kTileAlignment, nullptr, map, rounds, out.get());
  const std::vector<int> found = out.values();
  for (unsigned i = 0; i < kBlocks * kThreads; ++i) {
    int want = 0;
    for (int row = 0; row < rows; ++row)
      want += matrix[static_cast<size_t>(row) * kTileK + i % kThreads];
    if (found[i] != want) return false;
  }
  return true;
}

TEST(CudaClusterCopies, ComeToAllBlocks) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    cuda_emulator::set_seed(seed);
    for (const int rounds : {1, 2, 5}) EXPECT_TRUE(is_right<Fault::kNone>(rounds)) << seed;
  }
  cuda_emulator::set_seed(1);
}

TEST(CudaClusterCopiesDeathTest, BlocksThatMayNotBeThere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(is_right<Fault::kNoFirstBarrier>(2), "it may not have begun");
  EXPECT_DEATH(is_right<Fault::kNoLastBarrier>(2), "no barrier of the cluster behind it|has ended");
}

TEST(CudaClusterCopiesDeathTest, PlacesThatAreFilledAgain) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(is_right<Fault::kTellsOnlyItself>(3), "deadlock(.|\n)*lacks 64 arrivals");
  EXPECT_DEATH(is_right<Fault::kIsNotToldByOthers>(9),
               "has not been met since|two bulk copies|behind the phase that they are of");
}

}  // namespace cluster_copies_test
}  // namespace
}  // namespace tandem::cuda
