// The CPU's attention among tokens with boxes. A task is a head of a sequence. It writes the table
// of what is added to the scores, and is then encoder attention.
#include "kernels/box_distance.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

class BoxAttention {
 public:
  BoxAttention(Context& ctx, const ops::BoxAttentionArgs& args)
      : args_(args), isa_(isa_kernels()), starts_(args.indptr.data<int32_t>()) {
    int64_t longest = 1;
    for (int64_t s = 0; s < sequences(); ++s) longest = std::max(longest, tokens(s));
    table_floats_ = round_up(longest * longest, kLanes16);
    packed_floats_ = ragged_packed_floats(longest, args.head_dim);
    slice_ = table_floats_ + packed_floats_ + ragged_scratch_floats(longest, args.head_dim);
    workspace_ = static_cast<float*>(
        ctx.workspace(static_cast<size_t>(slice_ * ctx.threads()) * sizeof(float)));
  }

  int64_t tasks() const { return sequences() * args_.num_heads; }

  void operator()(int64_t task, int thread) const {
    const int64_t s = task / args_.num_heads, head = task % args_.num_heads;
    if (tokens(s) == 0) return;
    const int64_t row = starts_[s], column = head * args_.head_dim;
    float* const table = workspace_ + thread * slice_;
    write_table(s, head, table);
    RaggedHead h{};
    h.q = args_.q.row<float>(row) + column;
    h.k = args_.k.row<float>(row) + column;
    h.v = args_.v.row<float>(row) + column;
    h.out = args_.out.row<float>(row) + column;
    h.ldq = args_.q.row_stride();
    h.ldk = args_.k.row_stride();
    h.ldv = args_.v.row_stride();
    h.ldo = args_.out.row_stride();
    h.queries = h.keys = tokens(s);
    h.head_dim = args_.head_dim;
    h.scale = args_.scale;
    h.packed = table + table_floats_;
    h.scratch = h.packed + packed_floats_;
    h.table = table;
    h.ld_table = tokens(s);
    isa_.ragged_pack(h);
    isa_.ragged_attend(h);
  }

 private:
  int64_t sequences() const { return args_.indptr.dim(0) - 1; }
  int64_t tokens(int64_t s) const { return starts_[s + 1] - starts_[s]; }

  static float value(const ops::PositionBias& bias, int64_t head, int64_t distance) {
    return bias.values.row<float>(
        head)[std::clamp<int64_t>(distance + bias.zero, 0, bias.values.dim(1) - 1)];
  }

  void write_table(int64_t s, int64_t head, float* table) const {
    const int64_t count = tokens(s);
    for (int64_t i = 0; i < count; ++i) {
      const float* from = args_.boxes.row<float>(starts_[s] + i);
      for (int64_t j = 0; j < count; ++j) {
        const float* to = args_.boxes.row<float>(starts_[s] + j);
        table[i * count + j] =
            value(args_.down, head, box_distance(from, to, 1)) +
            (value(args_.across, head, box_distance(from, to, 0)) + value(args_.bias, head, j - i));
      }
    }
  }

  const ops::BoxAttentionArgs& args_;
  const IsaKernels& isa_;
  const int32_t* starts_;
  int64_t table_floats_ = 0, packed_floats_ = 0, slice_ = 0;
  float* workspace_ = nullptr;
};

}  // namespace

void box_attention(Context& ctx, const ops::BoxAttentionArgs& args) {
  const BoxAttention attention(ctx, args);
  run_tasks(ctx, attention.tasks(), attention);
}

}  // namespace tandem::cpu
