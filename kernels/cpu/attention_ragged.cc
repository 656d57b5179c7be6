// The CPU's encoder attention: a task is a range of queries of one head of one sequence; it packs
// that head's keys and values unless its thread has just done so.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

// Queries of a task: enough that packing does not count, few enough for all threads to have some.
constexpr int64_t kQueriesPerTask = 5 * kRaggedRows;

class RaggedAttention {
 public:
  RaggedAttention(Context& ctx, const ops::RaggedAttentionArgs& args)
      : args_(args),
        isa_(isa_kernels()),
        sequences_(args.indptr.dim(0) - 1),
        indptr_(args.indptr.data<int32_t>()) {
    int64_t longest = 0;
    for (int64_t s = 0; s < sequences_; ++s) longest = std::max<int64_t>(longest, length(s));
    packed_floats_ = ragged_packed_floats(longest, args.head_dim);
    slice_ = packed_floats_ + ragged_scratch_floats(longest, args.head_dim) + kLanes16;
    // Behind the slices: the first task of each sequence, in blocks of queries.
    const size_t floats = static_cast<size_t>(slice_ * ctx.threads());
    const size_t bytes = floats * sizeof(float);
    workspace_ = static_cast<float*>(
        ctx.workspace(bytes + static_cast<size_t>(sequences_ + 1) * sizeof(int64_t)));
    first_ = reinterpret_cast<int64_t*>(workspace_ + floats);
    first_[0] = 0;
    for (int64_t s = 0; s < sequences_; ++s)
      first_[s + 1] = first_[s] + ceil_div(length(s), kQueriesPerTask);
    for (int t = 0; t < ctx.threads(); ++t) *packed_id(t) = -1;
  }

  int64_t tasks() const { return first_[sequences_] * args_.num_heads; }

  // Tasks of one sequence are ordered by head, then by queries.
  void operator()(int64_t task, int thread) const {
    const int64_t block = task / args_.num_heads;  // only to find the sequence
    const int64_t s = std::upper_bound(first_, first_ + sequences_ + 1, block) - first_ - 1;
    const int64_t blocks = first_[s + 1] - first_[s];
    const int64_t local = task - first_[s] * args_.num_heads;
    const int64_t head = local / blocks, q0 = local % blocks * kQueriesPerTask;
    RaggedHead h = head_of(s, head, thread);
    const int64_t id = s * args_.num_heads + head;
    if (*packed_id(thread) != id) {
      isa_.ragged_pack(h);
      *packed_id(thread) = id;
    }
    h.q += q0 * h.ldq;
    h.out += q0 * h.ldo;
    h.position = q0;
    h.queries = std::min(kQueriesPerTask, length(s) - q0);
    isa_.ragged_attend(h);
  }

 private:
  int64_t length(int64_t s) const { return indptr_[s + 1] - indptr_[s]; }
  // What the thread has packed, at the end of its slice.
  int64_t* packed_id(int thread) const {
    return reinterpret_cast<int64_t*>(workspace_ + (thread + 1) * slice_ - kLanes16);
  }

  RaggedHead head_of(int64_t s, int64_t head, int thread) const {
    const int64_t row = indptr_[s], column = head * args_.head_dim;
    RaggedHead h{};
    h.q = args_.q.row<float>(row) + column;
    h.k = args_.k.row<float>(row) + column;
    h.v = args_.v.row<float>(row) + column;
    h.ldq = args_.q.row_stride();
    h.ldk = args_.k.row_stride();
    h.ldv = args_.v.row_stride();
    h.queries = h.keys = length(s);
    h.head_dim = args_.head_dim;
    h.scale = args_.scale;
    h.packed = workspace_ + thread * slice_;
    h.scratch = h.packed + packed_floats_;
    h.out = args_.out.row<float>(row) + column;
    h.ldo = args_.out.row_stride();
    h.bias = head_bias(args_.bias, head);
    return h;
  }

  const ops::RaggedAttentionArgs& args_;
  const IsaKernels& isa_;
  int64_t sequences_;
  const int32_t* indptr_;
  int64_t packed_floats_, slice_;
  float* workspace_;
  int64_t* first_;
};

}  // namespace

void ragged_attention(Context& ctx, const ops::RaggedAttentionArgs& args) {
  const RaggedAttention attention(ctx, args);
  run_tasks(ctx, attention.tasks(), attention);
}

}  // namespace tandem::cpu
