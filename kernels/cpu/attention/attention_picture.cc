// The CPU's attention within windows of pictures. A task is some heads of a window. It copies the
// window's rows to where they are adjacent; each head is then encoder attention of a short
// sequence.
#include <algorithm>

#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

constexpr float kApart = -100.0f;  // HuggingFace's mask
// That a task copies of a row: what a window's rows take stays in the second cache.
constexpr int64_t kMostColumns = 256;

// A window that the edge of the picture goes through has another table.
enum Edges : int { kNoEdge = 0, kRight = 1, kBelow = 2 };

class PictureAttention {
 public:
  PictureAttention(Context& ctx, const ops::PictureAttentionArgs& args)
      : args_(args),
        w_(args.windows),
        isa_(isa_kernels()),
        tokens_(int64_t{w_.window} * w_.window),
        windows_(int64_t{w_.rows()} * w_.columns()),
        pictures_(args.q.dim(0) / (int64_t{w_.height} * w_.width)),
        heads_(heads_of_task(ctx.threads())),
        groups_(ceil_div(args.num_heads, heads_)),
        table_floats_(round_up(tokens_ * tokens_, kLanes16)),
        rows_floats_(round_up(tokens_ * heads_ * args.head_dim, kLanes16)),
        packed_floats_(ragged_packed_floats(tokens_, args.head_dim)),
        slice_(table_floats_ + 4 * rows_floats_ + packed_floats_ +
               ragged_scratch_floats(tokens_, args.head_dim)) {
    const int64_t floats = args.num_heads * table_floats_ + slice_ * ctx.threads();
    tables_ = static_cast<float*>(ctx.workspace(static_cast<size_t>(floats) * sizeof(float)));
    slices_ = tables_ + args.num_heads * table_floats_;
  }

  int64_t tasks() const { return groups_ * pictures_ * windows_; }

  // The biases of a head between the points of a window.
  void write_table(int64_t head) const {
    const int64_t n = w_.window, distances = 2 * n - 1;
    const float* bias = args_.bias.row<float>(head);
    float* to = tables_ + head * table_floats_;
    for (int64_t y = 0; y < n; ++y)
      for (int64_t x = 0; x < n; ++x)
        for (int64_t key_y = 0; key_y < n; ++key_y)
          for (int64_t key_x = 0; key_x < n; ++key_x)
            *to++ = bias[(y - key_y + n - 1) * distances + x - key_x + n - 1];
  }

  // Behind write_table() of all heads.
  void operator()(int64_t task, int thread) const {
    const int64_t window = task / groups_, first = task % groups_ * heads_;
    const int64_t heads = std::min(heads_, args_.num_heads - first);
    const Window at = window_at(window / windows_, window % windows_);
    const int64_t column = first * args_.head_dim, width = heads * args_.head_dim;
    float* const table = slices_ + thread * slice_;
    float* const q = table + table_floats_;
    float *const k = q + rows_floats_, *const v = k + rows_floats_, *const out = v + rows_floats_;
    copy(args_.q, {}, at, column, width, q);
    copy(args_.k, args_.pad_k, at, column, width, k);
    copy(args_.v, args_.pad_v, at, column, width, v);
    RaggedHead h{};
    h.ldq = h.ldk = h.ldv = h.ldo = width;
    h.queries = h.keys = tokens_;
    h.head_dim = args_.head_dim;
    h.scale = args_.scale;
    h.packed = out + rows_floats_;
    h.scratch = h.packed + packed_floats_;
    h.ld_table = tokens_;
    for (int64_t head = 0; head < heads; ++head) {
      const int64_t inside = head * args_.head_dim;
      h.q = q + inside;
      h.k = k + inside;
      h.v = v + inside;
      h.out = out + inside;
      h.table = tables_ + (first + head) * table_floats_;
      if (at.edges != kNoEdge) h.table = set_apart(h.table, at.edges, table);
      isa_.ragged_pack(h);
      isa_.ragged_attend(h);
    }
    for_points(at, [&](int64_t i, int64_t row) {
      if (row >= 0) std::copy_n(out + i * width, width, args_.out.row<float>(row) + column);
    });
  }

 private:
  struct Window {
    int64_t first_row;  // of the picture
    int64_t y, x;       // of its first point, which may lie in what fills up
    int edges;
  };

  // Some, whose rows are read together; fewer if there are few windows for each thread.
  int64_t heads_of_task(int threads) const {
    const int64_t windows = std::max<int64_t>(1, pictures_ * windows_);
    const int64_t groups = ceil_div(4 * threads, windows);
    const int64_t most = std::min<int64_t>(args_.num_heads / groups, kMostColumns / args_.head_dim);
    return std::max<int64_t>(1, most);
  }

  Window window_at(int64_t picture, int64_t window) const {
    const int64_t row = window / w_.columns(), column = window % w_.columns();
    int edges = kNoEdge;
    if (w_.shift > 0 && row == w_.rows() - 1) edges |= kBelow;
    if (w_.shift > 0 && column == w_.columns() - 1) edges |= kRight;
    return {picture * w_.height * w_.width, row * w_.window + w_.shift,
            column * w_.window + w_.shift, edges};
  }

  // body(number in the window, row of the tensors or -1: it fills up)
  template <class Body>
  void for_points(const Window& at, const Body& body) const {
    const int64_t height = int64_t{w_.rows()} * w_.window,
                  width = int64_t{w_.columns()} * w_.window;
    int64_t i = 0;
    for (int64_t y = at.y; y < at.y + w_.window; ++y)
      for (int64_t x = at.x; x < at.x + w_.window; ++x, ++i) {
        const int64_t from_y = y < height ? y : y - height, from_x = x < width ? x : x - width;
        const bool there = from_y < w_.height && from_x < w_.width;
        body(i, there ? at.first_row + from_y * w_.width + from_x : -1);
      }
  }

  // `width` columns of the window's rows; where it is filled up, of `pad`, or zeros.
  void copy(const Tensor& t, const Tensor& pad, const Window& at, int64_t column, int64_t width,
            float* to) const {
    for_points(at, [&](int64_t i, int64_t row) {
      float* const here = to + i * width;
      if (row < 0 && pad.empty())
        std::fill_n(here, width, 0.0f);
      else
        std::copy_n((row < 0 ? pad.row<float>(0) : t.row<float>(row)) + column, width, here);
    });
  }

  // The same for a window whose points on either side of an edge do not see each other.
  const float* set_apart(const float* table, int edges, float* to) const {
    const int64_t n = w_.window, before = n - w_.shift;
    const float* from = table;
    float* out = to;
    for (int64_t i = 0; i < tokens_; ++i)
      for (int64_t key_y = 0; key_y < n; ++key_y) {
        const bool below = (edges & kBelow) != 0 && (i / n < before) != (key_y < before);
        for (int64_t key_x = 0; key_x < n; ++key_x) {
          const bool right = (edges & kRight) != 0 && (i % n < before) != (key_x < before);
          *out++ = *from++ + (below || right ? kApart : 0.0f);
        }
      }
    return to;
  }

  const ops::PictureAttentionArgs& args_;
  const PictureWindows& w_;
  const IsaKernels& isa_;
  int64_t tokens_;              // of a window
  int64_t windows_, pictures_;  // of a picture, of all
  int64_t heads_, groups_;      // of a task; tasks of a window
  int64_t table_floats_, rows_floats_, packed_floats_, slice_;
  float* tables_;  // by head
  float* slices_;  // by thread
};

}  // namespace

void picture_attention(Context& ctx, const ops::PictureAttentionArgs& args) {
  const PictureAttention attention(ctx, args);
  auto table = [&](int64_t head, int) { attention.write_table(head); };
  run_tasks(ctx, args.num_heads, table);
  run_tasks(ctx, attention.tasks(), attention);
}

}  // namespace tandem::cpu
