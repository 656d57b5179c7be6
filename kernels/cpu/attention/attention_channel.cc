// The CPU's attention among features. A task is a group of a picture. Its scores are a product over
// the points, whose rows are the keys' panel as they lie; only the queries are turned, some points
// at a time. Its outputs are the rows of values times the turned weights.
#include <algorithm>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kPoints = 256;  // at a time

class ChannelAttention {
 public:
  ChannelAttention(Context& ctx, const ops::ChannelAttentionArgs& args)
      : args_(args),
        isa_(isa_kernels()),
        groups_(args.q.dim(1) / args.width),
        panels_(ceil_div(args.width, kPanelColumns)),
        ldq_(padded_row_words(kPoints)),
        lds_(panels_ * kPanelColumns + kLanes16),
        queries_floats_(round_up(args.width * ldq_, kLanes16)),
        scores_floats_(round_up(args.width * lds_, kLanes16)),
        weights_floats_(panels_ * args.width * kPanelColumns),
        slice_(queries_floats_ + scores_floats_ + weights_floats_ + kPoints * kPanelColumns),
        workspace_(static_cast<float*>(
            ctx.workspace(static_cast<size_t>(slice_ * ctx.threads()) * sizeof(float)))) {}

  int64_t tasks() const { return args_.q.dim(0) / args_.points * groups_; }

  void operator()(int64_t task, int thread) const {
    const Group g{task / groups_ * args_.points, task % groups_ * args_.width,
                  workspace_ + thread * slice_};
    for (int64_t first = 0; first < args_.points; first += kPoints) add_scores(g, first);
    turn_weights(g);
    for (int64_t first = 0; first < args_.points; first += kPoints) write_outputs(g, first);
  }

 private:
  struct Group {
    int64_t row, column;
    float* queries;  // [width][ldq_]; then scores [width][lds_]; then weights [panels_][width][64];
                     // then a panel of keys or a tile of outputs, [kPoints][64]
  };
  float* scores(const Group& g) const { return g.queries + queries_floats_; }
  float* weights(const Group& g) const { return scores(g) + scores_floats_; }
  float* panel(const Group& g) const { return weights(g) + weights_floats_; }
  int64_t points_from(int64_t first) const { return std::min(kPoints, args_.points - first); }
  int columns_of(int64_t panel) const {
    return static_cast<int>(std::min<int64_t>(kPanelColumns, args_.width - panel * kPanelColumns));
  }

  void multiply(const float* x, int64_t ldx, int64_t rows, const float* w, int64_t steps,
                int columns, float* c, int64_t ldc, bool accumulate) const {
    GemmBlock b{};
    b.x = x;
    b.ldx = ldx;
    b.rows = rows;
    b.w = w;
    b.steps = steps;
    b.columns = columns;
    b.c = c;
    b.ldc = ldc;
    b.accumulate = accumulate;
    isa_.gemm_f32.run(b);
  }

  // Of some points: scores += scale q k.
  void add_scores(const Group& g, int64_t first) const {
    const int64_t n = points_from(first);
    for (int64_t block = 0; block < n; block += kLanes16) {  // whose rows stay in the first cache
      const int64_t end = std::min<int64_t>(n, block + kLanes16);
      for (int64_t c = 0; c < args_.width; ++c)
        for (int64_t i = block; i < end; ++i)
          g.queries[c * ldq_ + i] =
              args_.q.row<float>(g.row + first + i)[g.column + c] * args_.scale;
    }
    for (int64_t p = 0; p < panels_; ++p) {
      const int columns = columns_of(p);
      float* to = panel(g);
      for (int64_t i = 0; i < n; ++i, to += kPanelColumns) {
        const float* from = args_.k.row<float>(g.row + first + i) + g.column + p * kPanelColumns;
        std::fill(std::copy_n(from, columns, to), to + kPanelColumns, 0.0f);
      }
      multiply(g.queries, ldq_, args_.width, panel(g), n, columns, scores(g) + p * kPanelColumns,
               lds_, first > 0);
    }
  }

  // weights[p][j][c] = the softmax of feature p * 64 + c at key j.
  void turn_weights(const Group& g) const {
    std::fill_n(weights(g), weights_floats_, 0.0f);
    for (int64_t i = 0; i < args_.width; ++i) {
      float* row = scores(g) + i * lds_;
      float top;
      const float inverse = 1.0f / isa_.softmax(row, args_.width, &top);
      float* to = weights(g) + i / kPanelColumns * args_.width * kPanelColumns + i % kPanelColumns;
      for (int64_t j = 0; j < args_.width; ++j) to[j * kPanelColumns] = row[j] * inverse;
    }
  }

  void write_outputs(const Group& g, int64_t first) const {
    const int64_t n = points_from(first);
    for (int64_t p = 0; p < panels_; ++p) {
      const int columns = columns_of(p);
      multiply(args_.v.row<float>(g.row + first) + g.column, args_.v.row_stride(), n,
               weights(g) + p * args_.width * kPanelColumns, args_.width, columns, panel(g),
               kPanelColumns, false);
      for (int64_t i = 0; i < n; ++i)
        std::copy_n(panel(g) + i * kPanelColumns, columns,
                    args_.out.row<float>(g.row + first + i) + g.column + p * kPanelColumns);
    }
  }

  const ops::ChannelAttentionArgs& args_;
  const IsaKernels& isa_;
  int64_t groups_, panels_, ldq_, lds_;
  int64_t queries_floats_, scores_floats_, weights_floats_, slice_;
  float* workspace_;
};

}  // namespace

void channel_attention(Context& ctx, const ops::ChannelAttentionArgs& args) {
  const ChannelAttention attention(ctx, args);
  run_tasks(ctx, attention.tasks(), attention);
}

}  // namespace tandem::cpu
