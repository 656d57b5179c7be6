// The best of several parts of a vocabulary (ops::join_best): a thread for each row. Every rank
// adds the parts in the same order, so all ranks have the same bits.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/linear/linear_best.h"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/cuda/row_best.cuh"

namespace tandem::cuda {
namespace {

constexpr int kJoinBestThreads = 128;

struct Parts {
  const int32_t* ids;
  const float *values, *log_sums;
  int64_t ids_stride, values_stride, log_sums_stride;  // from part to part
  int64_t count, rows;
  BestAnswer answer;
};

__global__ void __launch_bounds__(kJoinBestThreads)
    join_best_kernel(const __grid_constant__ Parts p) {
  wait_for_earlier_kernels();
  const int64_t row = int64_t{blockIdx.x} * kJoinBestThreads + threadIdx.x;
  if (row >= p.rows) return;
  float value = p.values[row];
  Best best = {order_key(value), p.ids[row]};
  float peak = minus_infinity();
  for (int64_t part = 0; part < p.count; ++part) {
    const float of_part = p.values[part * p.values_stride + row];
    const Best one = {order_key(of_part), p.ids[part * p.ids_stride + row]};
    if (better(one, best)) {
      best = one;
      value = of_part;
    }
    peak = fmaxf(peak, p.log_sums[part * p.log_sums_stride + row]);
  }
  double sum = 0;  // a NaN stays
  for (int64_t part = 0; part < p.count; ++part) {
    const float log_sum = p.log_sums[part * p.log_sums_stride + row];
    if (log_sum != minus_infinity()) sum += exp(static_cast<double>(log_sum) - peak);
  }
  p.answer.log_sums[row] = static_cast<float>(peak + log(sum));
  p.answer.ids[row] = best.id;
  p.answer.values[row] = value;
  if (p.answer.best != nullptr) p.answer.best[row] = best.id;
}

}  // namespace

void join_best(Context& ctx, const ops::JoinBestArgs& args) {
  Parts p{};
  p.ids = args.part_ids.data<int32_t>();
  p.values = args.part_values.data<float>();
  p.log_sums = args.part_log_sums.data<float>();
  p.ids_stride = args.part_ids.row_stride();
  p.values_stride = args.part_values.row_stride();
  p.log_sums_stride = args.part_log_sums.row_stride();
  p.count = args.part_ids.dim(0);
  p.rows = args.part_ids.dim(1);
  p.answer = {args.log_sums.data<float>(), args.ids.data<int32_t>(), args.values.data<float>(),
              args.best.empty() ? nullptr : args.best.data<int32_t>(), 0};
  TANDEM_LAUNCH(join_best_kernel, static_cast<unsigned>(ceil_div(p.rows, kJoinBestThreads)),
                kJoinBestThreads, 0, stream_of(ctx), p);
  after_launch("join_best");
}

}  // namespace tandem::cuda
