// The CPU's attention among features. A task is a group of a picture. It turns the group's rows
// into columns, and is then encoder attention of a short sequence whose heads are long.
#include <algorithm>

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
        stride_(padded_row_words(args.points)),
        columns_floats_(args.width * stride_),
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
    h.ldq = h.ldk = h.ldv = h.ldo = stride_;
    h.queries = h.keys = args_.width;
    h.head_dim = points();
    h.scale = args_.scale;
    h.packed = q + 4 * columns_floats_;
    h.scratch = h.packed + packed_floats_;
    isa_.ragged_pack(h);
    isa_.ragged_attend(h);
    for_blocks([&](int64_t first, int64_t last) {
      for (int64_t t = first; t < last; ++t) {
        float* const to = args_.out.row<float>(row + t) + column;
        for (int64_t c = 0; c < args_.width; ++c) to[c] = h.out[c * stride_ + t];
      }
    });
  }

 private:
  int points() const { return static_cast<int>(args_.points); }

  // Points, as many at a time as a line of a column has: their rows stay in the first cache.
  template <class Body>
  void for_blocks(const Body& body) const {
    for (int64_t first = 0; first < args_.points; first += kLanes16)
      body(first, std::min<int64_t>(args_.points, first + kLanes16));
  }

  // [width, points] of the group, `stride_` apart.
  const float* turned(const Tensor& t, int64_t row, int64_t column, float* to) const {
    for_blocks([&](int64_t first, int64_t last) {
      for (int64_t c = 0; c < args_.width; ++c)
        for (int64_t i = first; i < last; ++i)
          to[c * stride_ + i] = t.row<float>(row + i)[column + c];
    });
    return to;
  }

  const ops::ChannelAttentionArgs& args_;
  const IsaKernels& isa_;
  int64_t groups_, stride_, columns_floats_, packed_floats_, slice_;
  float* workspace_;
};

}  // namespace

void channel_attention(Context& ctx, const ops::ChannelAttentionArgs& args) {
  const ChannelAttention attention(ctx, args);
  run_tasks(ctx, attention.tasks(), attention);
}

}  // namespace tandem::cpu
