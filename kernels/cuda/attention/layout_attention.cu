// Attention over FlashInfer's layouts, and the merging of states: one block for each query and
// head.
#include <vector>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/ops_cuda.h"
#include "kernels/layouts/strided_attention.h"

namespace tandem::cuda {
namespace {

constexpr int kLayoutThreads = 128;  // and keys at a time

// StridedAttention on the device.
struct LayoutProblem {
  const void* q[2];
  int64_t q_stride[2];
  KeySide k[2], v;
  int parts, heads, group;
  // Tables on the device. `pages` null: kv counts tokens. The first elements (of bias and mask) and
  // the first bytes are of requests.
  const int32_t *request, *qo, *kv, *pages, *last, *elements, *bytes;
  int64_t page_size;
  float scale, soft_cap;
  bool causal;
  const uint8_t *mask, *packed;  // null: there is none
  const float* bias;
  int64_t bias_stride;  // from head to head
  void* out;
  float* lse;  // null: not wanted
  int64_t out_stride, lse_stride;

  __device__ int64_t keys(int32_t s) const {
    const int64_t count = int64_t{kv[s + 1]} - kv[s];
    return pages == nullptr || count == 0 ? count : (count - 1) * page_size + last[s];
  }
  // Element 0 of key j's head.
  __device__ int64_t place(const KeySide& side, int32_t s, int64_t j, int head) const {
    const int64_t at = pages == nullptr
                           ? (kv[s] + j) * side.token
                           : pages[kv[s] + j / page_size] * side.page + j % page_size * side.token;
    return at + head / group * side.head;
  }
};

template <class T>
__device__ float layout_score(const LayoutProblem& p, int32_t s, int64_t row, int head, int64_t j) {
  float sum = 0.0f;
  for (int i = 0; i < p.parts; ++i) {
    const KeySide& side = p.k[i];
    const T* q = static_cast<const T*>(p.q[i]) + row * p.q_stride[i] + head * side.dim;
    const T* k = static_cast<const T*>(side.data) + p.place(side, s, j, head);
    float part = 0.0f;
    for (int d = 0; d < side.dim; ++d) part = fmaf(to_float(q[d]), to_float(k[d]), part);
    sum += part;
  }
  return sum;
}

// What becomes of a product; -infinity: is not seen.
__device__ float adjusted_score(const LayoutProblem& p, int32_t s, int64_t query, int64_t keys,
                                int head, int64_t j, float score) {
  const int64_t at = query * keys + j;
  if (p.mask != nullptr && p.mask[p.elements[s] + at] == 0) return -INFINITY;
  if (p.packed != nullptr && (p.packed[p.bytes[s] + at / 8] >> (at % 8) & 1) == 0) return -INFINITY;
  score *= p.scale;
  if (p.soft_cap > 0.0f) score = p.soft_cap * tanhf(score / p.soft_cap);
  if (p.bias == nullptr) return score;
  const float bias = p.bias[head * p.bias_stride + p.elements[s] + at];
  return bias == -INFINITY ? bias : score + bias;
}

// A query's head in grid.x. Keys go by in tiles, one for each thread; sums are kept with the
// largest score so far.
template <class T>
__global__ void layout_kernel(LayoutProblem p) {
  wait_for_earlier_kernels();
  TANDEM_DYNAMIC_SHARED(shared);
  __shared__ float weights[kLayoutThreads], scratch[33];
  float* const sums = reinterpret_cast<float*>(shared);  // [dim of values]
  const int64_t row = blockIdx.x / p.heads;
  const int head = static_cast<int>(blockIdx.x % p.heads), thread = static_cast<int>(threadIdx.x);
  const int32_t s = p.request[row];
  const int64_t query = row - p.qo[s], keys = p.keys(s);
  int64_t seen = keys;
  if (p.causal) seen = min(max(query + 1 + keys - (p.qo[s + 1] - p.qo[s]), int64_t{0}), keys);
  for (int d = thread; d < p.v.dim; d += kLayoutThreads) sums[d] = 0.0f;
  float top = -INFINITY, whole = 0.0f;
  for (int64_t first = 0; first < seen; first += kLayoutThreads) {
    const int64_t j = first + thread;
    const float score =
        j < seen ? adjusted_score(p, s, query, keys, head, j, layout_score<T>(p, s, row, head, j))
                 : -INFINITY;
    const float most = fmaxf(top, block_largest(score, scratch));
    const float base = most == -INFINITY ? 0.0f : most;
    const float weight = score == -INFINITY ? 0.0f : expf(score - base);
    const float earlier = top == -INFINITY ? 0.0f : expf(top - base);
    whole = whole * earlier + block_sum(weight, scratch);
    weights[thread] = weight;
    __syncthreads();
    const int count = static_cast<int>(min(int64_t{kLayoutThreads}, seen - first));
    for (int d = thread; d < p.v.dim; d += kLayoutThreads) {
      float sum = sums[d] * earlier;
      for (int i = 0; i < count; ++i)
        if (weights[i] != 0.0f)
          sum = fmaf(
              weights[i],
              to_float(static_cast<const T*>(p.v.data)[p.place(p.v, s, first + i, head) + d]), sum);
      sums[d] = sum;
    }
    top = most;
    __syncthreads();
  }
  T* const out = static_cast<T*>(p.out) + row * p.out_stride + head * p.v.dim;
  for (int d = thread; d < p.v.dim; d += kLayoutThreads)
    out[d] = from_float<T>(whole == 0.0f ? 0.0f : sums[d] / whole);
  if (thread == 0 && p.lse != nullptr)
    p.lse[row * p.lse_stride + head] = whole == 0.0f ? -INFINITY : top + logf(whole);
}

// All tables in one tensor there.
class UploadedTables {
 public:
  // Returns where it will lie.
  int64_t add(const int32_t* values, int64_t count) {
    const auto at = static_cast<int64_t>(all_.size());
    if (values != nullptr) all_.insert(all_.end(), values, values + count);
    return at;
  }
  template <class Integer>
  int64_t add(const std::vector<Integer>& values) {
    const auto at = static_cast<int64_t>(all_.size());
    for (const Integer x : values) all_.push_back(static_cast<int32_t>(x));
    return at;
  }
  void send(Context& ctx) {
    there_ = ctx.make({static_cast<int64_t>(all_.size())}, DType::kI32);
    ctx.backend().copy_in(Tensor::borrow(all_), there_);
  }
  const int32_t* at(int64_t first) const { return there_.data<int32_t>() + first; }

 private:
  std::vector<int32_t> all_;
  Tensor there_;
};

LayoutProblem problem_of(const StridedAttention& a) {
  LayoutProblem p{};
  p.parts = a.num_parts;
  for (int i = 0; i < a.num_parts; ++i) {
    p.q[i] = a.parts[i].q.raw();
    p.q_stride[i] = a.parts[i].q.row_stride();
    p.k[i] = a.parts[i].k;
  }
  p.v = a.v;
  p.heads = a.num_heads;
  p.group = a.num_heads / a.kv_heads;
  p.page_size = a.page_size;
  p.scale = a.scores.scale;
  p.soft_cap = a.scores.soft_cap;
  p.causal = a.scores.causal;
  if (a.scores.custom_mask.rank() > 0) p.mask = a.scores.custom_mask.data<uint8_t>();
  if (a.scores.packed_custom_mask.rank() > 0)
    p.packed = a.scores.packed_custom_mask.data<uint8_t>();
  if (a.scores.bias.rank() > 0) {
    p.bias = a.scores.bias.data<float>();
    p.bias_stride = a.scores.bias.rank() == 2 ? a.scores.bias.row_stride() : 0;
  }
  p.out = a.out.raw();
  p.out_stride = a.out.row_stride();
  if (a.lse.rank() > 0) {
    p.lse = a.lse.data<float>();
    p.lse_stride = a.lse.row_stride();
  }
  return p;
}

// Returns what p points into.
UploadedTables upload_tables(Context& ctx, const StridedAttention& a, LayoutProblem& p) {
  std::vector<int32_t> request;
  for (int64_t s = 0; s < a.requests; ++s)
    request.insert(request.end(), static_cast<size_t>(a.queries(s)), static_cast<int32_t>(s));
  const bool has_elements = p.mask != nullptr || p.bias != nullptr;
  UploadedTables tables;
  const int64_t of_request = tables.add(request), qo = tables.add(a.qo, a.requests + 1),
                kv = tables.add(a.kv, a.requests + 1),
                last = tables.add(a.last_page_len, a.requests),
                pages = tables.add(a.pages, a.pages == nullptr ? 0 : a.kv[a.requests]),
                elements = has_elements ? tables.add(a.first_elements()) : 0,
                bytes = p.packed != nullptr ? tables.add(a.first_bytes()) : 0;
  tables.send(ctx);
  p.request = tables.at(of_request);
  p.qo = tables.at(qo);
  p.kv = tables.at(kv);
  p.last = tables.at(last);
  p.pages = a.pages == nullptr ? nullptr : tables.at(pages);
  p.elements = tables.at(elements);
  p.bytes = tables.at(bytes);
  return tables;
}

void attend(Context& ctx, const StridedAttention& a, const char* op) {
  LayoutProblem p = problem_of(a);
  const UploadedTables tables = upload_tables(ctx, a, p);
  with_type(a.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(layout_kernel<T>, static_cast<unsigned>(a.out.dim(0) * a.num_heads),
                  kLayoutThreads, static_cast<size_t>(a.v.dim) * sizeof(float), stream_of(ctx), p);
  });
  after_launch(op);
}

// A row's head in grid.x.
template <class T>
__global__ void states_kernel(const T* v, int64_t v_stride, const float* s, int64_t s_stride,
                              int64_t states, int heads, int dim, T* out, int64_t out_stride,
                              float* lse, int64_t lse_stride) {
  wait_for_earlier_kernels();
  const int64_t row = blockIdx.x / heads, head = blockIdx.x % heads;
  float top = -INFINITY, whole = 0.0f;
  for (int64_t i = 0; i < states; ++i) top = fmaxf(top, s[i * s_stride + blockIdx.x]);
  if (top != -INFINITY)
    for (int64_t i = 0; i < states; ++i) whole += expf(s[i * s_stride + blockIdx.x] - top);
  for (int d = static_cast<int>(threadIdx.x); d < dim; d += static_cast<int>(blockDim.x)) {
    float sum = 0.0f;
    for (int64_t i = 0; i < states && top != -INFINITY; ++i) {
      const float weight = expf(s[i * s_stride + blockIdx.x] - top);
      if (weight == 0.0f) continue;  // what a state without keys holds does not matter
      sum = fmaf(weight, to_float(v[i * v_stride + int64_t{blockIdx.x} * dim + d]), sum);
    }
    out[row * out_stride + head * dim + d] = from_float<T>(whole == 0.0f ? 0.0f : sum / whole);
  }
  if (threadIdx.x == 0 && lse != nullptr)
    lse[row * lse_stride + head] = whole == 0.0f ? -INFINITY : top + logf(whole);
}

}  // namespace

void attend_ragged(Context& ctx, const ops::AttendRaggedArgs& args) {
  attend(ctx, strided(args), "attend_ragged");
}
void attend_pages(Context& ctx, const ops::AttendPagesArgs& args) {
  attend(ctx, strided(args), "attend_pages");
}
void attend_latent(Context& ctx, const ops::AttendLatentArgs& args) {
  attend(ctx, strided(args), "attend_latent");
}

void merge_states(Context& ctx, const ops::MergeStatesArgs& args) {
  const int64_t heads = args.v.dim(2);
  with_type(args.v.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    TANDEM_LAUNCH(states_kernel<T>, static_cast<unsigned>(args.v.dim(1) * heads), kLayoutThreads, 0,
                  stream_of(ctx), static_cast<const T*>(args.v.raw()), args.v.row_stride(),
                  args.s.data<float>(), args.s.row_stride(), args.v.dim(0), static_cast<int>(heads),
                  static_cast<int>(args.v.dim(3)), static_cast<T*>(args.out.raw()),
                  args.out.row_stride(), args.lse.rank() > 0 ? args.lse.data<float>() : nullptr,
                  args.lse.rank() > 0 ? args.lse.row_stride() : 0);
  });
  after_launch("merge_states");
}

}  // namespace tandem::cuda
