// The CPU's encoder attention: a task is a range of queries of one head of one sequence. It packs
// the keys and values that they see unless its thread has just done so: all of the head's, or those
// of a window. For a few queries with keys of their own that is not worth it: they read the rows as
// one page. Short sequences whose keys overlap share a task, and what it packs.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

// Queries of a task: enough that packing does not count, few enough for all threads to have some.
// With windows each task packs its own.
constexpr int64_t kQueriesPerTask = 5 * kRaggedRows;
constexpr int64_t kQueriesPerWindowTask = 10 * kRaggedRows;  // or twice as many
constexpr int64_t kMostShared = 8;                           // sequences of a task

class RaggedAttention {
 public:
  RaggedAttention(Context& ctx, const ops::RaggedAttentionArgs& args)
      : args_(args),
        isa_(isa_kernels()),
        kv_heads_(args.num_kv_heads == 0 ? args.num_heads : args.num_kv_heads),
        group_(args.num_heads / kv_heads_),
        sequences_(args.indptr.dim(0) - 1),
        indptr_(args.indptr.data<int32_t>()),
        queries_per_16_bit_task_(4 * isa_.ragged_16.rows),
        queries_per_window_task_(kQueriesPerWindowTask) {
    while (lengthens(queries_per_16_bit_task_, ctx.threads())) queries_per_16_bit_task_ *= 2;
    if (lengthens(queries_per_window_task_, ctx.threads())) queries_per_window_task_ *= 2;
    streams_ = args.head_dim % kLanes16 == 0 && passes_caches(args.out);
    lengthen_shared_tasks(ctx.threads());
    int64_t packed = 0, scratch = 0, rows = 0;
    for (int64_t s = 0; s < sequences_; ++s) {
      if (reads_rows(s)) {
        rows = std::max(rows, paged_scratch_floats(kPagedQueries, keys(s), args.head_dim));
        continue;
      }
      if (in_16_bits(s)) {
        packed = std::max(packed, ragged_16_packed_floats(keys(s), args.head_dim));
        scratch = std::max(scratch, ragged_16_scratch_floats(args.head_dim));
        continue;
      }
      packed = std::max(packed, ragged_packed_floats(keys_of_task(s), args.head_dim));
      scratch =
          std::max(scratch, ragged_scratch_floats(keys_of_queries(s, kRaggedRows), args.head_dim));
    }
    packed_floats_ = packed;
    slice_ = std::max(packed + scratch, rows) + kLanes16;
    // Behind the slices: the first sequence of each run, and its first task in blocks of queries.
    const size_t floats = static_cast<size_t>(slice_ * ctx.threads());
    const size_t bytes = floats * sizeof(float);
    workspace_ = static_cast<float*>(
        ctx.workspace(bytes + static_cast<size_t>(2 * (sequences_ + 1)) * sizeof(int64_t)));
    run_ = reinterpret_cast<int64_t*>(workspace_ + floats);
    first_ = run_ + sequences_ + 1;
    first_[0] = run_[0] = 0;
    for (int64_t s = 0; s < sequences_; s = run_[runs_]) {
      const int64_t end = end_of_run(s);
      const int64_t tasks = end == s + 1 ? ceil_div(queries(s), queries_per_task(s)) : 1;
      run_[++runs_] = end;
      first_[runs_] = first_[runs_ - 1] + tasks;
    }
    for (int t = 0; t < ctx.threads(); ++t) *packed_id(t) = -1;
  }

  int64_t tasks() const { return first_[runs_] * args_.num_heads; }

  // Tasks of one run are ordered by head of keys, then by queries, then by head of queries.
  void operator()(int64_t task, int thread) const {
    const int64_t some_block = task / args_.num_heads;  // only to find the run
    const int64_t run = std::upper_bound(first_, first_ + runs_ + 1, some_block) - first_ - 1;
    const int64_t s = run_[run], blocks = first_[run + 1] - first_[run];
    const int64_t local = task - first_[run] * args_.num_heads, pair = local / group_;
    const int64_t kv_head = pair / blocks, block = pair % blocks;
    const int64_t head = kv_head * group_ + local % group_;
    if (run_[run + 1] > s + 1) return attend_run(run, kv_head, head, thread);
    const int64_t q0 = block * queries_per_task(s);
    RaggedHead h = head_of(s, kv_head, head, thread);
    h.q += q0 * h.ldq;
    h.out += q0 * h.ldo;
    h.position = q0;
    h.queries = std::min(queries_per_task(s), queries(s) - q0);
    if (reads_rows(s)) return attend_rows(h, thread);
    if (has_window(s)) {
      const int64_t begin = std::max<int64_t>(0, q0 - h.back), end = q0 + h.queries + h.ahead;
      h.packed_keys = {begin / kPanelColumns * kPanelColumns, std::min(end, h.keys)};
      pack(isa_.window_pack, h, (first_[run] + block) * kv_heads_ + kv_head, thread);
      return isa_.window_attend(h);
    }
    const bool narrow = in_16_bits(s);
    pack(narrow ? isa_.ragged_16.pack : isa_.ragged_pack, h, first_[run] * kv_heads_ + kv_head,
         thread);
    (narrow ? isa_.ragged_16.attend : isa_.ragged_attend)(h);
  }

 private:
  // id: of what is packed, unless the thread has just done so.
  void pack(void (*packed)(const RaggedHead&), const RaggedHead& h, int64_t id, int thread) const {
    if (*packed_id(thread) == id) return;
    packed(h);
    *packed_id(thread) = id;
  }

  // All keys of a run are packed, as those of one sequence. Each of its sequences sees its own.
  void attend_run(int64_t run, int64_t kv_head, int64_t head, int thread) const {
    const int64_t from = run_[run], to = run_[run + 1];
    RaggedHead h = head_of(from, kv_head, head, thread);
    h.packed_keys = {0, kv_range(to - 1)[1] - kv_range(from)[0]};
    pack(isa_.window_pack, h, first_[run] * kv_heads_ + kv_head, thread);
    for (int64_t s = from; s < to; ++s) {
      const RaggedHead own = head_of(s, kv_head, head, thread);
      h.q = own.q;
      h.out = own.out;
      h.queries = queries(s);
      h.back = own.back;
      h.ahead = own.ahead;
      h.position = kv_range(s)[0] - kv_range(from)[0];
      h.own = {h.position, h.position + keys(s)};
      isa_.window_attend(h);
    }
  }

  int64_t queries(int64_t s) const { return indptr_[s + 1] - indptr_[s]; }
  // The rows of a sequence's keys: first and end.
  const int32_t* kv_range(int64_t s) const {
    return args_.kv_ranges.empty() ? indptr_ + s : args_.kv_ranges.row<int32_t>(s);
  }
  int64_t keys(int64_t s) const { return kv_range(s)[1] - kv_range(s)[0]; }
  // How far a query sees, of a sequence that has only so many keys. (Queries of other tokens than
  // the keys may be more than these.)
  int64_t back(int64_t s) const { return reach(args_.window.back, s); }
  int64_t ahead(int64_t s) const { return reach(args_.window.ahead, s); }
  int64_t reach(int32_t distance, int64_t s) const {
    return distance == ops::Window::kAll ? keys(s) + queries(s)
                                         : std::min<int64_t>(distance, keys(s));
  }
  // Whether there is a key that a query does not see, or others than the sequence's own.
  bool has_window(int64_t s) const {
    return std::min(back(s), ahead(s)) < keys(s) - 1 || side_keys(s) > 0;
  }
  // Keys and values have the same stride, as pages have.
  bool reads_rows(int64_t s) const {
    return !args_.kv_ranges.empty() && queries(s) <= kRaggedRows && side_keys(s) == 0 &&
           args_.k.row_stride() == args_.v.row_stride();
  }
  bool in_16_bits(int64_t s) const {
    return args_.in_16_bits && isa_.ragged_16.attend != nullptr && args_.kv_ranges.empty() &&
           !has_window(s);
  }
  int64_t queries_per_task(int64_t s) const {
    if (reads_rows(s)) return kPagedQueries;
    if (in_16_bits(s)) return queries_per_16_bit_task_;
    return has_window(s) ? queries_per_window_task_ : kQueriesPerTask;
  }
  // Two threads that share a head both pack its keys, and those of a window that both see: as few
  // tasks as still even out the threads.
  bool lengthens(int64_t size, int threads) const {
    int64_t longest = 0, blocks = 0;
    for (int64_t s = 0; s < sequences_; ++s) {
      longest = std::max(longest, queries(s));
      if (size > 0) blocks += ceil_div(queries(s), 2 * size);
    }
    return 0 < size && size < longest && blocks * args_.num_heads >= 16 * threads;
  }
  // Enough sequences share a task that packing does not count, few enough for all threads.
  void lengthen_shared_tasks(int threads) {
    while (shared_ < kMostShared && sequences_ * args_.num_heads >= 16 * threads * 2 * shared_)
      shared_ *= 2;
  }
  // Behind the sequences that share a task with s: few queries each, the same side keys, and keys
  // that begin at panels of those of s and overlap with the keys of the sequence before.
  int64_t end_of_run(int64_t s) const {
    int64_t end = s + 1;
    if (args_.kv_ranges.empty() || args_.side.unit > 0 || !args_.global_rows.empty()) return end;
    if (!shares(s)) return end;
    for (; end < std::min(sequences_, s + shared_) && shares(end); ++end) {
      const int32_t *before = kv_range(end - 1), *own = kv_range(end);
      if (own[0] < before[0] || own[0] >= before[1] || own[1] < before[1]) break;
      if ((own[0] - kv_range(s)[0]) % kPanelColumns != 0 || !same_side_keys(end, s)) break;
    }
    return end;
  }
  bool shares(int64_t s) const {
    return has_window(s) && !reads_rows(s) && queries(s) <= kQueriesPerWindowTask &&
           keys(s) <= 2 * kQueriesPerWindowTask;
  }
  bool same_side_keys(int64_t s, int64_t other) const {
    if (args_.side.ranges.empty()) return true;
    const int32_t *a = args_.side.ranges.row<int32_t>(s),
                  *b = args_.side.ranges.row<int32_t>(other);
    return a[0] == b[0] && a[1] == b[1];
  }
  int64_t side_keys(int64_t s) const {
    if (args_.side.ranges.empty()) return 0;
    const int32_t* range = args_.side.ranges.row<int32_t>(s);
    return range[1] - range[0];
  }
  int64_t globals(int64_t s) const {
    if (args_.global_rows.empty()) return 0;
    const int32_t* indptr = args_.global_indptr.data<int32_t>();
    return indptr[s + 1] - indptr[s];
  }
  // The most that `count` queries of a sequence see, in the sense of ragged_packed_floats().
  int64_t keys_of_queries(int64_t s, int64_t count) const {
    if (!has_window(s)) return keys(s);
    const int64_t window = std::min(keys(s), back(s) + count + ahead(s) + kPanelColumns - 1);
    return round_up(globals(s) + side_keys(s), kPanelColumns) + round_up(window, kPanelColumns);
  }
  // Of the longest task that begins with s.
  int64_t keys_of_task(int64_t s) const {
    const int64_t alone = keys_of_queries(s, queries_per_task(s)), end = end_of_run(s);
    if (end == s + 1) return alone;
    return round_up(side_keys(s), kPanelColumns) +
           round_up(int64_t{kv_range(end - 1)[1]} - kv_range(s)[0], kPanelColumns);
  }
  // What the thread has packed, at the end of its slice.
  int64_t* packed_id(int thread) const {
    return reinterpret_cast<int64_t*>(workspace_ + (thread + 1) * slice_ - kLanes16);
  }

  RaggedHead head_of(int64_t s, int64_t kv_head, int64_t head, int thread) const {
    const int64_t row = indptr_[s], kv_row = kv_range(s)[0];
    const int64_t column = head * args_.head_dim, kv_column = kv_head * args_.head_dim;
    RaggedHead h{};
    h.q = args_.q.row<float>(row) + column;
    h.k = args_.k.row<float>(kv_row) + kv_column;
    h.v = args_.v.row<float>(kv_row) + kv_column;
    h.ldq = args_.q.row_stride();
    h.ldk = args_.k.row_stride();
    h.ldv = args_.v.row_stride();
    h.keys = keys(s);
    h.head_dim = args_.head_dim;
    h.scale = args_.scale;
    h.soft_cap = args_.soft_cap;
    h.packed = workspace_ + thread * slice_;
    h.scratch = h.packed + packed_floats_;
    h.out = args_.out.row<float>(row) + column;
    h.ldo = args_.out.row_stride();
    h.stream = streams_;
    h.bias = head_bias(args_.bias, head);
    h.back = back(s);
    h.ahead = ahead(s);
    h.own = {0, h.keys};
    h.global_count = globals(s);
    if (h.global_count > 0)
      h.globals = args_.global_rows.data<int32_t>() + args_.global_indptr.data<int32_t>()[s];
    h.first_row = kv_row;
    add_side(s, kv_column, head, h);
    return h;
  }

  void add_side(int64_t s, int64_t kv_column, int64_t head, RaggedHead& h) const {
    const ops::SideKeys& side = args_.side;
    h.side_count = side_keys(s);
    if (h.side_count == 0) return;
    const int64_t first = side.ranges.row<int32_t>(s)[0];
    h.side_k = side.k.row<float>(first) + kv_column;
    h.side_v = side.v.row<float>(first) + kv_column;
    h.ld_side_k = side.k.row_stride();
    h.ld_side_v = side.v.row_stride();
    h.side_bias = head_bias(side.bias, head);
    h.side_unit = side.unit;
  }

  void attend_rows(const RaggedHead& h, int thread) const {
    static constexpr int32_t kOnlyPage = 0;
    PagedHeads rows{};
    rows.heads = rows.group = 1;
    rows.queries = static_cast<int>(h.queries);
    rows.q = h.q;
    rows.ldq = h.ldq;
    rows.k = h.k;
    rows.v = h.v;
    rows.key_stride = h.ldk;
    rows.pages = &kOnlyPage;
    rows.block_size = static_cast<int>(h.keys);
    rows.keys = h.keys;
    rows.window_back = -1;
    rows.head_dim = h.head_dim;
    rows.scale = h.scale;
    rows.soft_cap = h.soft_cap;
    rows.scratch = workspace_ + thread * slice_;
    rows.out = h.out;
    rows.ldo = h.ldo;
    *packed_id(thread) = -1;  // overwritten
    isa_.paged_attend_f32(rows);
  }

  const ops::RaggedAttentionArgs& args_;
  const IsaKernels& isa_;
  int64_t kv_heads_, group_;  // heads of keys, and heads of queries for each
  int64_t sequences_;
  const int32_t* indptr_;
  int64_t queries_per_16_bit_task_, queries_per_window_task_;
  int64_t shared_ = 1;  // the most sequences of a task
  int64_t packed_floats_, slice_;
  float* workspace_;
  int64_t runs_ = 0;
  int64_t* run_;    // [runs + 1]: the first sequence
  int64_t* first_;  // [runs + 1]: the first task, in blocks of queries
  bool streams_;    // outputs go past the caches
};

}  // namespace

void ragged_attention(Context& ctx, const ops::RaggedAttentionArgs& args) {
  const RaggedAttention attention(ctx, args);
  run_tasks(ctx, attention.tasks(), attention);
}

}  // namespace tandem::cpu
