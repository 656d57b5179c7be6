// The head of up to 8 greedy rows (of more: best_tiles.cu): the product with a vocabulary, and of
// each row the best entry and the log of the sum of exponentials, without a logit in memory.
//
// A warp takes some features after the other (lane_sums.cuh, with weight_rows' bits), and keeps the
// best and the sum of what it has seen of each row; warps of a block are joined in shared memory,
// blocks by the last of them to end. Which features a warp has, and the order in which parts are
// joined, depend on the vocabulary and the number of rows alone.
#include <algorithm>

#include "kernels/cuda/backend.h"
#include "kernels/cuda/linear/best_part.cuh"
#include "kernels/cuda/linear/lane_sums.cuh"
#include "kernels/cuda/linear/weight_path.h"
#include "kernels/cuda/ops_cuda.h"

namespace tandem::cuda {
namespace {

constexpr int kBestWarps = 8;
constexpr int kMostBlocks = 264;  // two for each of an H100's multiprocessors

using Part = BestPart<double>;

struct Launch {
  BestProduct of;
  Part* parts;      // [rows, blocks]
  int32_t* ticket;  // 0 before and behind
};

// Asked once more behind the products, which need all registers.
__device__ __forceinline__ int thread_again() {
#if defined(__CUDA_ARCH__)
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread;
#else
  return static_cast<int>(threadIdx.x);
#endif
}
__device__ __forceinline__ int block_again() {
#if defined(__CUDA_ARCH__)
  int block;
  asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
  return block;
#else
  return static_cast<int>(blockIdx.x);
#endif
}

// The last block: a warp for each row.
__device__ __forceinline__ void join_blocks(const Launch& p) {
  const int thread = thread_again(), lane = thread % kWarpSize;
  const int64_t row = thread / kWarpSize;
  if (row >= p.of.product.rows) return;
  const auto blocks = static_cast<int>(gridDim.x);
  Part all = no_part<double>();
  for (int i = lane; i < blocks; i += kWarpSize) all = joined(all, p.parts[row * blocks + i]);
  all = joined_over(all, kWarpSize);
  if (lane == 0) tell(p.of.answer, row, all);
}

// The lane's row and feature, of the features from `first` on.
template <class S>
__device__ __forceinline__ void take_features(const BestProduct& b, int64_t first, float sum,
                                              Part& mine) {
  constexpr int kLanes = kWarpSize / (S::kRows * S::kFeatures);  // that have one sum
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int64_t feature = first + lane / kLanes % S::kFeatures;
  if (lane % kLanes != 0 || feature >= b.product.n) return;
  const auto* bias = static_cast<const float*>(b.product.epilogue.bias);
  const float logit = logit_of(b, sum, bias == nullptr ? 0.0f : bias[feature]);
  mine = joined(mine, part_of<double>(logit, static_cast<int32_t>(feature)));
}

template <class T, class S>
__global__ void __launch_bounds__(kBestWarps* kWarpSize, 2)
    linear_best_kernel(const __grid_constant__ Launch b, bool early) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t own = (int64_t{blockIdx.x} * kBestWarps + warp) * S::kFeatures;
  const int step = static_cast<int>(gridDim.x) * kBestWarps * S::kFeatures;
  constexpr int kFeatures = S::kFeatures;
  if (early) prefetch_features<kFeatures>(b.of.product, own, lane);
  wait_for_earlier_kernels();
  static_assert(S::kRows <= kBestWarps, "the last block has a warp for each row");
  __shared__ Part of_warps[kBestWarps][S::kRows];
  __shared__ int32_t x_rows[S::kRows];  // (addresses in memory would wait in registers)
  __shared__ bool is_last;
  const WeightProduct& p = b.of.product;
  if (static_cast<int>(threadIdx.x) < S::kRows)
    x_rows[threadIdx.x] = b.of.x_rows[min(static_cast<int64_t>(threadIdx.x), p.rows - 1)];
  __syncthreads();
  Part mine = no_part<double>();  // of row lane / (kWarpSize / kRows)
#pragma unroll 1
  for (auto first = static_cast<int32_t>(own); first < static_cast<int32_t>(p.n); first += step) {
    LaneSums<T, Plain<T>, S, true> of_lane(p, first, [&](int r) { return int64_t{x_rows[r]}; });
    of_lane.add_all();
    take_features<S>(b.of, first, spread_sums<S::kRows * S::kFeatures>(of_lane.sums), mine);
  }
  mine = joined_over(mine, kWarpSize / S::kRows);
  constexpr int kLanes = kWarpSize / S::kRows;  // that have one row
  const int thread = thread_again();
  if (thread % kLanes == 0) of_warps[thread / kWarpSize][thread % kWarpSize / kLanes] = mine;
  __syncthreads();
  if (thread < min(static_cast<int64_t>(S::kRows), p.rows)) {
    Part all = of_warps[0][thread];
#pragma unroll 1
    for (int w = 1; w < kBestWarps; ++w) all = joined(all, of_warps[w][thread]);
    b.parts[int64_t{thread} * gridDim.x + block_again()] = all;
    __threadfence();
  }
  __syncthreads();
  if (thread == 0) {
    is_last = atomicAdd(b.ticket, 1) == static_cast<int>(gridDim.x) - 1;
    __threadfence();
    if (is_last) *b.ticket = 0;
  }
  __syncthreads();
  if (is_last) join_blocks(b);
}

template <class T, class S>
int best_blocks(int64_t n) {
  return static_cast<int>(std::min<int64_t>(ceil_div(n, kBestWarps * S::kFeatures), kMostBlocks));
}

template <class T, class S>
void launch_linear_best(Context& ctx, const BestProduct& of) {
  const int blocks = best_blocks<T, S>(of.product.n);
  const Tensor parts =
      ctx.make({of.product.rows * blocks * static_cast<int64_t>(sizeof(Part) / sizeof(int32_t))},
               DType::kI32);
  const Launch b{of, static_cast<Part*>(parts.raw()),
                 static_cast<CudaBackend&>(ctx.backend()).ticket()};
  const LaunchStream stream = stream_of(ctx);
  TANDEM_LAUNCH((linear_best_kernel<T, S>), static_cast<unsigned>(blocks), kBestWarps * kWarpSize,
                0, stream, b, stream.overlaps);
}

// The shapes of weight_rows, so that sums are its own.
template <class T>
void run(Context& ctx, const BestProduct& b) {
  const WeightProduct& p = b.product;
  const int64_t x_bytes = p.x_stride * static_cast<int64_t>(sizeof(T));
  if (p.k % kVector<T> != 0 || !aligned_16(p.x, x_bytes) || !aligned_16(p.weight, p.pitch))
    return p.rows <= 4 ? launch_linear_best<T, LaneShape<4, 2, 1, false>>(ctx, b)
                       : launch_linear_best<T, LaneShape<8, 2, 1, false>>(ctx, b);
  if (p.rows == 1) return launch_linear_best<T, LaneShape<1, 2, 4, true>>(ctx, b);
  if (p.rows <= 4) return launch_linear_best<T, LaneShape<4, 2, 2, true>>(ctx, b);
  launch_linear_best<T, LaneShape<8, 2, 2, true>>(ctx, b);
}

}  // namespace

static_assert(kMostRowsAtOnce == kBestWarps);

void linear_best(Context& ctx, const ops::LinearBestArgs& args) {
  const PackedWeight& w = *args.weight;
  BestProduct b{};
  b.product.x = args.x.raw();
  b.product.x_stride = args.x.row_stride();
  b.product.rows = args.rows.dim(0);
  b.product.k = w.in_features();
  b.product.n = w.out_features();
  b.product.type = args.x.dtype();
  b.product.weight = w.data().raw();
  b.product.pitch = w.data().dim(1) * static_cast<int64_t>(size_of(w.data().dtype()));
  b.product.epilogue.bias = args.bias.empty() ? nullptr : args.bias.raw();
  b.x_rows = args.rows.data<int32_t>();
  b.answer = {args.log_sums.data<float>(), args.ids.data<int32_t>(), args.values.data<float>(),
              args.best.empty() ? nullptr : args.best.data<int32_t>(), args.first_id};
  b.soft_cap = args.soft_cap;
  if (b.product.rows > kMostRowsAtOnce) return best_tiles(ctx, b);
  with_type(args.x.dtype(), [&](auto tag) { run<typename decltype(tag)::type>(ctx, b); });
  after_launch("linear_best");
}

}  // namespace tandem::cuda
