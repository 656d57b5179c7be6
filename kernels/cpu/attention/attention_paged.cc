// The CPU's decoder attention: a task is up to kPagedQueries queries of one sequence and some heads
// of keys, which lie side by side in a page, with all heads of queries that read them. Neighbours
// of one query each whose first pages are the same (beams, samples, requests with one decoder
// prompt) are a task together, which reads those pages once.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"
#include "kernels/kv_pages.h"

namespace tandem::cpu {
namespace {

class PagedAttention {
 public:
  PagedAttention(Context& ctx, const ops::PagedAttentionArgs& args)
      : args_(args),
        strides_(kv_strides(args.pages)),
        group_(args.num_heads / strides_.num_heads),
        sequences_(args.kv_last_page_len.dim(0)),
        qo_(args.qo_indptr.data<int32_t>()),
        kv_(args.kv_indptr.data<int32_t>()) {
    const IsaKernels& isa = isa_kernels();
    const DType type = args.pages.data.dtype();
    attend_ = type == DType::kF32  ? isa.paged_attend_f32
              : type == DType::kI8 ? isa.paged_attend_i8
                                   : isa.paged_attend_bf16;
    attend_shared_ = type == DType::kF32  ? isa.paged_attend_shared_f32
                     : type == DType::kI8 ? isa.paged_attend_shared_i8
                                          : isa.paged_attend_shared_bf16;
    most_members_ = most_members(ctx.threads());
    int64_t longest = 1, most_queries = 1, total = 0, blocks = 0;
    for (int64_t s = 0; s < sequences_;) {
      const int64_t n = ceil_div(queries(s), kPagedQueries), members = members_from(s);
      for (const int64_t end = s + members; s < end; ++s) {
        if (n == 0) continue;
        const int64_t read = std::min(keys(s), most_keys_read());
        longest = std::max(longest, read);
        most_queries =
            std::max(most_queries, std::max(members, std::min<int64_t>(queries(s), kPagedQueries)));
        total += n * read;
      }
      blocks += n;
    }
    const int64_t most_rows = most_queries * group_;
    heads_ = heads_per_task(ctx.threads(), blocks, total, longest, most_rows);
    slice_ = paged_scratch_floats(heads_ * most_rows, longest + (windowed() ? kLanes16 : 0),
                                  args.head_dim);
    const size_t floats = static_cast<size_t>(slice_ * ctx.threads());
    workspace_ = static_cast<float*>(ctx.workspace(
        floats * sizeof(float) + static_cast<size_t>(sequences_ + 1) * sizeof(int64_t)));
    // Behind the slices: the first block of queries of each sequence. Those that share a task with
    // the one before have none.
    first_ = reinterpret_cast<int64_t*>(workspace_ + floats);
    first_[0] = 0;
    for (int64_t s = 0; s < sequences_;) {
      const int64_t end = s + members_from(s);
      first_[s + 1] = first_[s] + ceil_div(queries(s), kPagedQueries);
      while (++s < end) first_[s + 1] = first_[s];
    }
  }

  int64_t tasks() const { return first_[sequences_] * head_groups(); }

  void operator()(int64_t task, int thread) const {
    const int64_t block = task / head_groups(), group = task % head_groups();
    const int64_t s = std::upper_bound(first_, first_ + sequences_ + 1, block) - first_ - 1;
    const int64_t q0 = (block - first_[s]) * kPagedQueries;
    const int64_t end = std::min(strides_.num_heads, (group + 1) * heads_);
    const int64_t members = members_from(s);
    if (members > 1) return attend_shared(s, members, group * heads_, end, thread);
    attend_(heads_of(s, group * heads_, end, q0, thread));
  }

 private:
  // As many as leave every thread some tasks, and scores that stay in cache; or so many that a task
  // is worth claiming. `blocks` of queries see `total` keys together, and `longest` at most.
  int64_t heads_per_task(int threads, int64_t blocks, int64_t total, int64_t longest,
                         int64_t most_rows) const {
    constexpr int64_t kTasksPerThread = 4, kScoreFloats = 32 << 10;
    const int64_t element = static_cast<int64_t>(size_of(args_.pages.data.dtype()));
    const int64_t task_bytes =
        total * strides_.head_dim * 2 * element / std::max<int64_t>(1, blocks);
    const int64_t shared = strides_.num_heads * blocks / (threads * kTasksPerThread);
    const int64_t cached = kScoreFloats / (longest * most_rows);
    const int64_t least = kTaskBytes / std::max<int64_t>(1, task_bytes);
    const int64_t most = std::min<int64_t>(strides_.num_heads, kPagedRows / most_rows);
    return std::clamp<int64_t>(std::max(std::min(shared, cached), least), 1,
                               std::max<int64_t>(1, most));
  }

  // Fewer where there would be too few tasks for the threads.
  int64_t most_members(int threads) const {
    constexpr int64_t kTasksPerThread = 4;
    if (windowed()) return 1;
    return std::clamp<int64_t>(sequences_ * strides_.num_heads / (threads * kTasksPerThread), 1,
                               std::clamp<int64_t>(kPagedRows / group_, 1, kPagedQueries));
  }

  // Pages that both have in common from the first on, full for both.
  int64_t common_pages(int64_t a, int64_t b) const {
    const int32_t* pages = args_.kv_page_indices.data<int32_t>();
    const int64_t most = std::min(keys(a), keys(b)) / strides_.block_size;
    int64_t n = 0;
    while (n < most && pages[kv_[a] + n] == pages[kv_[b] + n]) ++n;
    return n;
  }

  // How many sequences from s on are one task: 1 but for a few that share enough.
  int64_t members_from(int64_t s) const {
    constexpr int64_t kLeastKeys = 32;
    int64_t n = 1;
    if (queries(s) != 1) return n;
    while (n < most_members_ && s + n < sequences_ && queries(s + n) == 1 &&
           common_pages(s, s + n) * strides_.block_size >= kLeastKeys)
      ++n;
    return n;
  }

  void attend_shared(int64_t s, int64_t count, int64_t head, int64_t end, int thread) const {
    SharedMember members[kPagedQueries];
    SharedHeads g{heads_of(s, head, end, 0, thread), members, INT64_MAX};
    g.heads.queries = static_cast<int>(count);
    for (int64_t i = 0; i < count; ++i) {
      const PagedHeads one = heads_of(s + i, head, end, 0, thread);
      members[i] = {one.q, one.pages, one.keys, one.position, one.out, one.log_sums};
      if (i > 0) g.shared_pages = std::min(g.shared_pages, common_pages(s, s + i));
    }
    attend_shared_(g);
  }

  bool windowed() const { return args_.window_back != ops::Window::kAll; }
  // By a task of a sequence of any length: with the rest of the window's first page.
  int64_t most_keys_read() const {
    if (!windowed()) return INT64_MAX;
    return int64_t{args_.window_back} + kPagedQueries + strides_.block_size;
  }
  int64_t head_groups() const { return ceil_div(strides_.num_heads, heads_); }
  int64_t queries(int64_t s) const { return qo_[s + 1] - qo_[s]; }
  int64_t keys(int64_t s) const {
    return strides_.block_size * (kv_[s + 1] - kv_[s] - 1) +
           args_.kv_last_page_len.data<int32_t>()[s];
  }

  // Of the heads of keys [head, end). Pages that even the first query does not see are left out.
  PagedHeads heads_of(int64_t s, int64_t head, int64_t end, int64_t q0, int thread) const {
    const int64_t position = keys(s) - queries(s) + q0;
    const int64_t unseen = windowed() ? std::max<int64_t>(0, position - args_.window_back) : 0;
    const int64_t left_out = unseen / strides_.block_size;
    const int64_t keys_left = keys(s) - left_out * strides_.block_size;
    const int64_t column = head * group_ * strides_.head_dim;
    const size_t element = size_of(args_.pages.data.dtype());
    const std::byte* pages = static_cast<const std::byte*>(args_.pages.data.raw()) +
                             static_cast<size_t>(head * strides_.head) * element;
    PagedHeads h{};
    h.heads = static_cast<int>(end - head);
    h.group = static_cast<int>(group_);
    h.q = args_.q.row<float>(qo_[s] + q0) + column;
    h.ldq = args_.q.row_stride();
    h.queries = static_cast<int>(std::min<int64_t>(kPagedQueries, queries(s) - q0));
    h.k = pages;
    h.v = pages + static_cast<size_t>(strides_.kv) * element;
    if (!args_.pages.scales.empty()) {
      h.k_scales = args_.pages.scales.data<float>() + head * strides_.head / strides_.head_dim;
      h.v_scales = h.k_scales + strides_.kv / strides_.head_dim;
    }
    h.page_stride = strides_.block;
    h.head_stride = strides_.head;
    h.key_stride = strides_.token;
    h.pages = args_.kv_page_indices.data<int32_t>() + kv_[s] + left_out;
    h.block_size = static_cast<int>(strides_.block_size);
    h.keys = args_.causal ? keys_left - queries(s) + q0 + 1 : keys_left;
    h.causal_step = args_.causal ? 1 : 0;
    h.window_back = args_.window_back;
    h.lane = static_cast<int>(left_out * strides_.block_size % kLanes16);
    h.head_dim = args_.head_dim;
    h.scale = args_.scale;
    h.soft_cap = args_.soft_cap;
    h.scratch = workspace_ + thread * slice_;
    h.out = args_.out.row<float>(qo_[s] + q0) + column;
    h.ldo = args_.out.row_stride();
    h.bias = head_bias(args_.bias, head * group_);
    h.position = keys_left - queries(s) + q0;
    if (!args_.log_sums.empty()) {
      h.log_sums = args_.log_sums.row<float>(qo_[s] + q0) + head * group_;
      h.ld_log_sums = args_.log_sums.row_stride();
    }
    return h;
  }

  const ops::PagedAttentionArgs& args_;
  KvStrides strides_;
  int64_t group_;  // heads of queries for each of keys
  int64_t sequences_;
  const int32_t* qo_;
  const int32_t* kv_;
  void (*attend_)(const PagedHeads&);
  void (*attend_shared_)(const SharedHeads&);
  int64_t most_members_;  // of a task
  int64_t heads_, slice_;
  float* workspace_;
  int64_t* first_;
};

}  // namespace

void paged_attention(Context& ctx, const ops::PagedAttentionArgs& args) {
  const PagedAttention attention(ctx, args);
  run_tasks(ctx, attention.tasks(), attention);
}

}  // namespace tandem::cpu
