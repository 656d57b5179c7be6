// The CPU's decoder attention: a task is up to kPagedQueries queries of one sequence and some
// heads.
#include "kernels/cpu/isa.h"
#include "kernels/cpu/ops_cpu.h"
#include "kernels/kv_pages.h"

namespace tandem::cpu {
namespace {

class Attention {
 public:
  Attention(Context& ctx, const ops::PagedAttentionArgs& args)
      : args_(args),
        strides_(kv_strides(args.pages)),
        sequences_(args.kv_last_page_len.dim(0)),
        qo_(args.qo_indptr.data<int32_t>()),
        kv_(args.kv_indptr.data<int32_t>()) {
    const IsaKernels& isa = isa_kernels();
    attend_ = args.pages.data.dtype() == DType::kF32 ? isa.paged_attend_f32 : isa.paged_attend_bf16;
    int64_t longest = 1, total = 0, blocks = 0;
    for (int64_t s = 0; s < sequences_; ++s) {
      const int64_t n = ceil_div(queries(s), kPagedQueries);
      if (n == 0) continue;
      longest = std::max(longest, keys(s));
      total += n * keys(s);
      blocks += n;
    }
    slice_ = paged_scratch_floats(longest, args.head_dim);
    const size_t floats = static_cast<size_t>(slice_ * ctx.threads());
    workspace_ = static_cast<float*>(ctx.workspace(
        floats * sizeof(float) + static_cast<size_t>(sequences_ + 1) * sizeof(int64_t)));
    // Behind the slices: the first block of queries of each sequence.
    first_ = reinterpret_cast<int64_t*>(workspace_ + floats);
    first_[0] = 0;
    for (int64_t s = 0; s < sequences_; ++s)
      first_[s + 1] = first_[s] + ceil_div(queries(s), kPagedQueries);
    const int64_t bytes_per_head =
        total * strides_.head_dim * 2 * static_cast<int64_t>(size_of(args.pages.data.dtype()));
    heads_ = std::clamp<int64_t>(kTaskBytes * blocks / std::max<int64_t>(1, bytes_per_head), 1,
                                 strides_.num_heads);
  }

  int64_t tasks() const { return first_[sequences_] * head_groups(); }

  void operator()(int64_t task, int thread) const {
    const int64_t block = task / head_groups(), group = task % head_groups();
    const int64_t s = std::upper_bound(first_, first_ + sequences_ + 1, block) - first_ - 1;
    const int64_t q0 = (block - first_[s]) * kPagedQueries;
    const int64_t end = std::min(strides_.num_heads, (group + 1) * heads_);
    for (int64_t head = group * heads_; head < end; ++head) {
      PagedHead h = head_of(s, head, q0, thread);
      h.next_head = head + 1 < end ? strides_.head : 0;
      attend_(h);
    }
  }

 private:
  int64_t head_groups() const { return ceil_div(strides_.num_heads, heads_); }
  int64_t queries(int64_t s) const { return qo_[s + 1] - qo_[s]; }
  int64_t keys(int64_t s) const {
    return strides_.block_size * (kv_[s + 1] - kv_[s] - 1) +
           args_.kv_last_page_len.data<int32_t>()[s];
  }

  PagedHead head_of(int64_t s, int64_t head, int64_t q0, int thread) const {
    const size_t element = size_of(args_.pages.data.dtype());
    const std::byte* pages = static_cast<const std::byte*>(args_.pages.data.raw()) +
                             static_cast<size_t>(head * strides_.head) * element;
    PagedHead h{};
    h.q = args_.q.row<float>(qo_[s] + q0) + head * strides_.head_dim;
    h.ldq = args_.q.row_stride();
    h.queries = static_cast<int>(std::min<int64_t>(kPagedQueries, queries(s) - q0));
    h.k = pages;
    h.v = pages + static_cast<size_t>(strides_.kv) * element;
    h.page_stride = strides_.block;
    h.key_stride = strides_.token;
    h.pages = args_.kv_page_indices.data<int32_t>() + kv_[s];
    h.block_size = static_cast<int>(strides_.block_size);
    h.keys = args_.causal ? keys(s) - queries(s) + q0 + 1 : keys(s);
    h.causal_step = args_.causal ? 1 : 0;
    h.head_dim = args_.head_dim;
    h.scale = args_.scale;
    h.scratch = workspace_ + thread * slice_;
    h.out = args_.out.row<float>(qo_[s] + q0) + head * strides_.head_dim;
    h.ldo = args_.out.row_stride();
    return h;
  }

  const ops::PagedAttentionArgs& args_;
  KvStrides strides_;
  int64_t sequences_;
  const int32_t* qo_;
  const int32_t* kv_;
  void (*attend_)(const PagedHead&);
  int64_t heads_, slice_;
  float* workspace_;
  int64_t* first_;
};

}  // namespace

void paged_attention(Context& ctx, const ops::PagedAttentionArgs& args) {
  const Attention attention(ctx, args);
  run_tasks(ctx, attention.tasks(), attention);
}

}  // namespace tandem::cpu
