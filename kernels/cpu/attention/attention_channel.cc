// The CPU's attention among features. A task is a group of a picture. It turns the group's rows
// into columns, and is then encoder attention of a short sequence whose heads are long.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

class ChannelAttention {
 public:
  ChannelAttention(Context& ctx, const ops::ChannelAttentionArgs& args)
      : args_(args),
        isa_(isa_kernels()),
        groups_(args.q.dim(1) / args.width),
        columns_floats_(round_up(args.width * args.points, kLanes16)),
        packed_floats_(ragged_packed_floats(args.width, points())),
        slice_(4 * columns_floats_ + packed_floats_ + ragged_scratch_floats(args.width, points())),
        workspace_(static_cast<float*>(
            ctx.workspace(static_cast<size_t>(slice_ * ctx.threads()) * sizeof(float)))) {}

  int64_t tasks() const { return args_.q.dim(0) / args_.points * groups_; }

  void operator()(int64_t task, int thread) const {
    const int64_t row = task / groups_ * args_.points, column = task % groups_ * args_.width;
    float* const q = workspace_ + thread * slice_;
    RaggedHead h{};
    h.q = turned(args_.q, row, column, q);
    h.k = turned(args_.k, row, column, q + columns_floats_);
    h.v = turned(args_.v, row, column, q + 2 * columns_floats_);
    h.out = q + 3 * columns_floats_;
    h.ldq = h.ldk = h.ldv = h.ldo = args_.points;
    h.queries = h.keys = args_.width;
    h.head_dim = points();
    h.scale = args_.scale;
    h.packed = q + 4 * columns_floats_;
    h.scratch = h.packed + packed_floats_;
    isa_.ragged_pack(h);
    isa_.ragged_attend(h);
    for (int64_t t = 0; t < args_.points; ++t) {
      float* const to = args_.out.row<float>(row + t) + column;
      for (int64_t c = 0; c < args_.width; ++c) to[c] = h.out[c * args_.points + t];
    }
  }

 private:
  int points() const { return static_cast<int>(args_.points); }

  // [width, points] of the group.
  const float* turned(const Tensor& t, int64_t row, int64_t column, float* to) const {
    for (int64_t i = 0; i < args_.points; ++i) {
      const float* const from = t.row<float>(row + i) + column;
      for (int64_t c = 0; c < args_.width; ++c) to[c * args_.points + i] = from[c];
    }
    return to;
  }

  const ops::ChannelAttentionArgs& args_;
  const IsaKernels& isa_;
  int64_t groups_, columns_floats_, packed_floats_, slice_;
  float* workspace_;
};

}  // namespace

void channel_attention(Context& ctx, const ops::ChannelAttentionArgs& args) {
  const ChannelAttention attention(ctx, args);
  run_tasks(ctx, attention.tasks(), attention);
}

}  // namespace tandem::cpu
