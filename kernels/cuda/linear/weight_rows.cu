// Products of few rows (lane_sums.cuh), some features to a warp.
#include "kernels/cuda/linear/epilogue.cuh"
#include "kernels/cuda/linear/lane_sums.cuh"
#include "kernels/cuda/linear/weight_path.h"

namespace tandem::cuda {
namespace {

constexpr int kWeightRowWarps = 2;

// Blocks of a multiprocessor, as many as leave registers enough.
template <class Kind, class S>
constexpr int kWeightRowBlocks = S::kRows == 4 && !Kind::kRowScale && !Kind::kGroups ? 8 : 1;

template <class T, class Kind, class S>
__global__ void __launch_bounds__(kWeightRowWarps* kWarpSize, (kWeightRowBlocks<Kind, S>))
    weight_rows_kernel(const __grid_constant__ WeightProduct p, bool early) {
  constexpr int kFeatures = S::kFeatures;
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  const int64_t first = (int64_t{blockIdx.x} * kWeightRowWarps + warp) * kFeatures;
  if (early && blockIdx.y == 0) prefetch_features<kFeatures>(p, first, lane);
  wait_for_earlier_kernels();
  if (first >= p.n) return;
  const int64_t first_row = int64_t{blockIdx.y} * S::kRows;
  LaneSums<T, Kind, S> of_lane(p, first, [&](int r) { return min(first_row + r, p.rows - 1); });
  of_lane.add_all();
  constexpr int kLanes = kWarpSize / (S::kRows * kFeatures);  // that have one sum
  const float sum = spread_sums<S::kRows * kFeatures>(of_lane.sums);
  const int64_t row = first_row + lane / kLanes / kFeatures,
                feature = first + lane / kLanes % kFeatures;
  if (lane % kLanes == 0 && row < p.rows && feature < p.n) finish<T>(p.epilogue, row, feature, sum);
}

template <class T, class Kind, class S>
void launch_weight_rows(const WeightProduct& p, LaunchStream stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(p.n, kWeightRowWarps * S::kFeatures)),
                  static_cast<unsigned>(ceil_div(p.rows, S::kRows)));
  TANDEM_LAUNCH((weight_rows_kernel<T, Kind, S>), grid, kWeightRowWarps * kWarpSize, 0, stream, p,
                stream.overlaps);
}

// Features below which a warp takes fewer of them: 4 would leave a multiprocessor of a large GPU
// two warps.
constexpr int64_t kFewFeatures = 2048;

template <class T, class Kind>
void launch_rows(const WeightProduct& p, LaunchStream stream) {
  constexpr bool kQuantised = Kind::kRowScale || Kind::kGroups;
  const int64_t x_bytes = p.x_stride * static_cast<int64_t>(sizeof(T));
  if (p.k % Kind::kElements != 0 || !aligned_16(p.x, x_bytes) || !aligned_16(p.weight, p.pitch))
    return launch_weight_rows<T, Kind, LaneShape<4, 2, 1, false>>(p, stream);
  if (p.rows == 1) return launch_weight_rows<T, Kind, LaneShape<1, 2, 4, true>>(p, stream);
  // (Registers do not hold 8 rows of f32 and int4's groups.)
  constexpr bool kLarge = Kind::kGroups && sizeof(T) == 4;
  if (kLarge || p.rows <= 4)
    return launch_weight_rows<T, Kind, LaneShape<4, 2, kQuantised ? 1 : 2, true>>(p, stream);
  static_assert(kMostRowsAtOnce == 8);
  if constexpr (kQuantised && !kLarge)
    launch_weight_rows<T, Kind, LaneShape<8, 2, 1, true>>(p, stream);
  else if constexpr (!kLarge)
    p.n <= kFewFeatures ? launch_weight_rows<T, Kind, LaneShape<8, 2, 2, true>>(p, stream)
                        : launch_weight_rows<T, Kind, LaneShape<8, 4, 1, true>>(p, stream);
}

}  // namespace

void weight_rows(const WeightProduct& p, LaunchStream stream) {
  with_type(p.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (p.quantization == Quantization::kNone) return launch_rows<T, Plain<T>>(p, stream);
    with_quantization(p.quantization,
                      [&](auto kind) { launch_rows<T, decltype(kind)>(p, stream); });
  });
  TANDEM_CUDA_CHECK(cudaGetLastError());
}

}  // namespace tandem::cuda
