// Attention over rows and over pages, plain: the backend "reference". A block is a query and a
// head. It takes its keys in tiles of as many as it has threads: a thread has a key's score, then
// every kPlainThreads-th element of the sum of values. Everything is summed in double, in the order
// of the keys, whatever the plan cuts them into.
#include "kernels/cuda/attention/attention_args.h"
#include "kernels/cuda/backends/cuda_attention.h"
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/cuda/page_types.cuh"

namespace tandem::cuda {
namespace {

constexpr int kPlainThreads = 64, kMostHeadDim = 256, kPerThread = kMostHeadDim / kPlainThreads;

// Of a query's head, its keys: the side keys of its sequence have the numbers [0, side_count), then
// come the sequence's own. T: of the queries and of rows; Stored: of pages.
template <class T, class Stored>
struct QueryKeys {
  const AttentionParams& p;
  const GlobalKeys& others;
  const AttentionWork& work;
  const int query, head, kv_head;  // `query` of the work
  int32_t sequence = 0, side_first = 0, side_count = 0;

  __device__ QueryKeys(const AttentionParams& params, const GlobalKeys& globals,
                       const AttentionWork& item, int query_of_item, int query_head)
      : p(params),
        others(globals),
        work(item),
        query(query_of_item),
        head(query_head),
        kv_head(query_head / params.group) {
    if (others.indptr == nullptr) return;
    while (others.indptr[sequence + 1] <= row()) ++sequence;
    if (others.ranges == nullptr) return;
    side_first = others.ranges[2 * sequence];
    side_count = others.ranges[2 * sequence + 1] - side_first;
  }

  __device__ int64_t row() const { return work.query_row + query; }
  // The work is the last of its queries' chunks, which ends where the keys do.
  __device__ int32_t count() const {
    return side_count + min(work.key_end, work.position + query + 1);
  }

  __device__ bool sees(int32_t j) const {
    const int32_t key = j - side_count, distance = key - (work.query_position + query);
    if (key < 0) return true;
    if ((p.window_back < 0 || -distance <= p.window_back) &&
        (p.window_ahead < 0 || distance <= p.window_ahead))
      return true;
    if (others.rows_indptr == nullptr) return false;
    for (int32_t i = others.rows_indptr[sequence]; i < others.rows_indptr[sequence + 1]; ++i)
      if (others.rows[i] == work.kv_base + key) return true;
    return false;
  }

  // Element d of a key, or of a value.
  __device__ double element(int32_t j, bool value, int d) const {
    if (p.pages != nullptr) {
      const int64_t page = p.page_indices[work.kv_base + j / p.block_size];
      return stored(page * p.page_stride + j % p.block_size * p.token_stride +
                        kv_head * p.head_stride + (value ? p.value_offset : 0),
                    d);
    }
    const bool side = j < side_count;
    const int64_t at = side ? side_first + j : work.kv_base + j - side_count;
    const void* const base = side ? (value ? others.side_v : others.side_k) : (value ? p.v : p.k);
    const int64_t stride = side ? (value ? others.side_v_stride : others.side_k_stride)
                                : (value ? p.v_stride : p.k_stride);
    return to_float(static_cast<const T*>(base)[at * stride + int64_t{kv_head} * p.head_dim + d]);
  }
  __device__ double stored(int64_t at, int d) const {
    const auto element = static_cast<const typename Stored::Element*>(p.pages)[at + d];
    return double{Stored::widen(element)} * double{row_factor<Stored>(p.scales, at / p.head_dim)};
  }

  __device__ double score(int32_t j) const {
    const T* const q = static_cast<const T*>(p.q) + row() * p.q_stride + int64_t{head} * p.head_dim;
    double x = 0;
    for (int d = 0; d < p.head_dim; ++d) x += double{to_float(q[d])} * element(j, false, d);
    x *= double{p.scale};
    if (p.soft_cap > 0) x = double{p.soft_cap} * tanh(x / double{p.soft_cap});
    const int32_t own = work.query_position + query;
    if (j >= side_count) return x + bias(p.bias, p.bias_columns, p.bias_zero, j - side_count - own);
    const int32_t unit = others.unit == 0 ? 0 : min(own / others.unit, side_count - 1);
    return x + bias(others.bias, others.bias_columns, others.bias_zero, j - unit);
  }

 private:
  __device__ double bias(const float* values, int32_t columns, int32_t zero,
                         int32_t distance) const {
    if (values == nullptr) return 0;
    return values[int64_t{head} * columns + max(0, min(distance + zero, columns - 1))];
  }
};

template <class T, class Stored>
__global__ void __launch_bounds__(kPlainThreads, 4)
    plain_kernel(AttentionParams p, GlobalKeys globals) {
  wait_for_earlier_kernels();
  __shared__ double scores[kPlainThreads];
  const AttentionWork& work = p.work[blockIdx.x];
  const int query = static_cast<int>(blockIdx.z), head = static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x);
  if (query >= work.queries || work.chunk + 1 < work.chunks) return;
  const QueryKeys<T, Stored> keys(p, globals, work, query, head);
  const int32_t count = keys.count();
  double top = -INFINITY, sum = 0, values[kPerThread] = {};
  for (int32_t first = 0; first < count; first += kPlainThreads) {
    const int32_t mine = first + thread;
    __syncthreads();
    scores[thread] = mine < count && keys.sees(mine) ? keys.score(mine) : -INFINITY;
    __syncthreads();
    double most = top;
    for (int i = 0; i < kPlainThreads; ++i) most = fmax(most, scores[i]);
    if (most == -INFINITY) continue;  // of all threads
    const double before = exp(top - most);
    sum *= before;
    for (double& value : values) value *= before;
    for (int i = 0; i < kPlainThreads; ++i) {
      if (scores[i] == -INFINITY) continue;
      const double weight = exp(scores[i] - most);
      sum += weight;
      for (int n = 0; n < kPerThread; ++n)
        if (const int d = thread + n * kPlainThreads; d < p.head_dim)
          values[n] += weight * keys.element(first + i, true, d);
    }
    top = most;
  }
  T* const out = static_cast<T*>(p.out) + keys.row() * p.out_stride + int64_t{head} * p.head_dim;
  for (int n = 0; n < kPerThread; ++n)
    if (const int d = thread + n * kPlainThreads; d < p.head_dim)
      out[d] = from_float<T>(static_cast<float>(values[n] / sum));
  if (thread == 0 && p.log_sums != nullptr)
    p.log_sums[keys.row() * p.log_sums_stride + head] = static_cast<float>(top + log(sum));
}

void run(Context& ctx, AttentionParams p, const GlobalKeys& globals,
         const ops::DeviceAttentionPlan& plan) {
  TANDEM_CHECK_LE(p.head_dim, kMostHeadDim);
  const auto launch = [&](const Tensor& work, int most_queries) {
    if (work.empty() || work.dim(0) == 0) return;
    p.work = static_cast<const AttentionWork*>(work.raw());
    p.work_count = static_cast<int32_t>(work.dim(0));
    const dim3 grid(static_cast<unsigned>(p.work_count), static_cast<unsigned>(p.num_heads),
                    static_cast<unsigned>(most_queries));
    with_type(p.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      with_page_type<T>(p.pages == nullptr ? p.dtype : p.page_type, [&](auto stored) {
        TANDEM_LAUNCH((plain_kernel<T, decltype(stored)>), grid, kPlainThreads, 0, stream_of(ctx),
                      p, globals);
      });
    });
  };
  launch(plan.rows, kRowsPerBlock);
  launch(plan.tiles, kTileRows);
  after_launch("attention");
}

}  // namespace

void reference_ragged_attention(Context& ctx, const ops::RaggedAttentionArgs& args) {
  run(ctx, params_of(args), has_global_keys(args) ? global_keys_of(args) : GlobalKeys{},
      *args.plan);
}

void reference_paged_attention(Context& ctx, const ops::PagedAttentionArgs& args) {
  if (args.write != nullptr) cuda::write_kv(ctx, *args.write);
  run(ctx, params_of(args), GlobalKeys{}, *args.plan);
}

}  // namespace tandem::cuda
