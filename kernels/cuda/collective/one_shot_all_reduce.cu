// The kernel of one_shot_all_reduce.h, and its launch.
//
// A region has a flag for each block and rank, and two slots of data for each block. Blocks of the
// same number on all devices make a group of their own, which shares nothing with other blocks:
// number b of call e (e counts the calls in which block b took part, the same on all ranks, in the
// device's memory, so that a recorded step counts on when it is replayed)
//   1. writes its part of x to slot e % 2 of its own region,
//   2. stores e as flag [b][own rank] of every rank's region (release),
//   3. waits until the flags [b][*] of its own region are e at least (acquire),
//   4. reads slot e % 2 of all regions and adds up.
// Why one exchange is enough: a slot is written again in call e + 2, in step 1, which this rank
// enters when its call e + 1 has ended. Then it has seen every rank's flag e + 1, and a rank
// stores that in its kernel of call e + 1, which began when its kernel of call e, with all its
// reads of the slot, was over (one stream). A flag may be one ahead of who waits for it, never two.
//
// Blocks wait for each other across devices, so all of a grid must get to run: there are no more
// than the smallest device of the group has multiprocessors, and whatever else is on the device
// ends without them. Waiting ends in any case: by the host's word, or by the clock.
#include <algorithm>

#include "kernels/cuda/collective/one_shot_all_reduce.h"
#include "kernels/cuda/collective/one_shot_region.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/hardware/system_scope.cuh"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kOneShotThreads = 256;
constexpr int64_t kPassBytes = int64_t{kOneShotThreads} * 16;

__device__ bool await_flag(uint32_t* flag, uint32_t epoch, const OneShotGroup& g) {
  uint64_t start = 0;
  for (uint32_t turn = 1;; ++turn) {
    if (static_cast<int32_t>(load_acquire_system(flag) - epoch) >= 0) return true;
    if (turn % 256 != 0) continue;
    const uint64_t now = global_nanoseconds();
    if (start == 0) start = now;
    if (load_acquire_system(g.aborted) != 0 || now - start > g.timeout) return false;
  }
}

// All threads of the block; whether every rank's part is there.
__device__ bool meet(const OneShotGroup& g, int block, uint32_t epoch) {
  __shared__ int lost;
  const int rank = static_cast<int>(threadIdx.x);
  if (rank == 0) lost = 0;
  __syncthreads();  // the block's part is written
  if (rank < g.ranks) {
    store_release_system(flag_of(g.regions[rank], block, g.rank), epoch);
    if (!await_flag(flag_of(g.regions[g.rank], block, rank), epoch, g)) {
      store_release_system(g.dead, 1);
      store_release_system(g.failed, 1);
      lost = 1;
    }
  }
  __syncthreads();
  return lost == 0;
}

// The sum over ranks of element i of the parts.
template <class T>
__device__ float sum_of(const OneShotGroup& g, size_t offset, int64_t i) {
  float sum = to_float(reinterpret_cast<const T*>(g.regions[0] + offset)[i]);
  for (int r = 1; r < g.ranks; ++r)
    sum += to_float(reinterpret_cast<const T*>(g.regions[r] + offset)[i]);
  return sum;
}

template <class T>
__device__ Vector<T> sums_of(const OneShotGroup& g, size_t offset, int64_t i) {
  const auto part = [&](int r) {
    return reinterpret_cast<const Vector<T>*>(g.regions[r] + offset)[i];
  };
  float sums[kVector<T>];
  const Vector<T> first = part(0);
#pragma unroll
  for (int j = 0; j < kVector<T>; ++j) sums[j] = to_float(first.values[j]);
#pragma unroll
  for (int r = 1; r < OneShotGroup::kMaxRanks; ++r) {
    if (r >= g.ranks) break;
    const Vector<T> next = part(r);
#pragma unroll
    for (int j = 0; j < kVector<T>; ++j) sums[j] += to_float(next.values[j]);
  }
  Vector<T> out;
#pragma unroll
  for (int j = 0; j < kVector<T>; ++j) out.values[j] = from_float<T>(sums[j]);
  return out;
}

// Block b: elements [b * chunk, (b + 1) * chunk) of x; chunk is a multiple of a vector.
// `vectors`: x is aligned for them.
template <class T>
__global__ void __launch_bounds__(kOneShotThreads)
    one_shot_kernel(const __grid_constant__ OneShotGroup g, T* x, int64_t n, int64_t chunk,
                    bool vectors) {
  wait_for_earlier_kernels();
  __shared__ uint32_t dead;
  const int block = static_cast<int>(blockIdx.x);
  const int64_t t = threadIdx.x, begin = block * chunk;
  if (t == 0) dead = load_acquire_system(g.dead);
  __syncthreads();
  if (dead != 0) return;
  const uint32_t epoch = g.epochs[block] + 1;
  const size_t offset = slot_offset(block, epoch);
  const int64_t count = max(int64_t{0}, min(chunk, n - begin));
  const int64_t whole = vectors ? count / kVector<T> : 0;
  x += begin;
  T* mine = reinterpret_cast<T*>(g.regions[g.rank] + offset);
  for (int64_t i = t; i < whole; i += kOneShotThreads)
    reinterpret_cast<Vector<T>*>(mine)[i] = reinterpret_cast<const Vector<T>*>(x)[i];
  for (int64_t i = whole * kVector<T> + t; i < count; i += kOneShotThreads) mine[i] = x[i];
  if (!meet(g, block, epoch)) return;
  for (int64_t i = t; i < whole; i += kOneShotThreads)
    reinterpret_cast<Vector<T>*>(x)[i] = sums_of<T>(g, offset, i);
  for (int64_t i = whole * kVector<T> + t; i < count; i += kOneShotThreads)
    x[i] = from_float<T>(sum_of<T>(g, offset, i));
  if (t == 0) g.epochs[block] = epoch;
}

}  // namespace

bool OneShotAllReduce::takes(const Tensor& x) const {
  const bool type =
      x.dtype() == DType::kF32 || x.dtype() == DType::kF16 || x.dtype() == DType::kBF16;
  // The more ranks, the more is read for each byte.
  const size_t most = std::min(static_cast<size_t>(max_blocks_) * kSlotBytes,
                               group_.ranks <= 4 ? kRegionData / 2 : kRegionData / 4);
  return type && x.size() > 0 && x.bytes() <= most;
}

void OneShotAllReduce::run(const Tensor& x) {
  TANDEM_CHECK(x.contiguous() && takes(x));
  const int64_t n = x.size();
  const int64_t blocks =
      std::clamp<int64_t>(ceil_div(static_cast<int64_t>(x.bytes()), kPassBytes), 1, max_blocks_);
  with_type(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t chunk = ceil_div(ceil_div(n, blocks), kVector<T>) * kVector<T>;
    const bool vectors = reinterpret_cast<uintptr_t>(x.raw()) % sizeof(Vector<T>) == 0;
    TANDEM_LAUNCH(one_shot_kernel<T>, static_cast<unsigned>(blocks), kOneShotThreads, 0,
                  backend_.launches(), group_, static_cast<T*>(x.raw()), n, chunk, vectors);
  });
  after_launch("one-shot all-reduce");
}

}  // namespace tandem::cuda
