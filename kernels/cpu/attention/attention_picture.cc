// The CPU's attention within windows of pictures. A task is a head of a window. It copies the
// window's rows to where they are adjacent, and is then encoder attention of a short sequence.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

constexpr float kApart = -100.0f;  // HuggingFace's mask

// A window that the edge of the picture goes through has another table.
enum Edges : int { kNoEdge = 0, kRight = 1, kBelow = 2 };
constexpr int kEdges = 4;

class PictureAttention {
 public:
  PictureAttention(Context& ctx, const ops::PictureAttentionArgs& args)
      : args_(args),
        w_(args.windows),
        isa_(isa_kernels()),
        tokens_(int64_t{w_.window} * w_.window),
        windows_(int64_t{w_.rows()} * w_.columns()),
        pictures_(args.q.dim(0) / (int64_t{w_.height} * w_.width)),
        rows_floats_(round_up(tokens_ * args.head_dim, kLanes16)),
        packed_floats_(ragged_packed_floats(tokens_, args.head_dim)),
        slice_(kLanes16 + round_up(tokens_ * tokens_, kLanes16) + 4 * rows_floats_ +
               packed_floats_ + ragged_scratch_floats(tokens_, args.head_dim)),
        workspace_(static_cast<float*>(
            ctx.workspace(static_cast<size_t>(slice_ * ctx.threads()) * sizeof(float)))) {
    for (int t = 0; t < ctx.threads(); ++t) *table_id(t) = -1;
  }

  int64_t tasks() const { return args_.num_heads * pictures_ * windows_; }

  // Tasks are ordered by head: a thread makes few tables.
  void operator()(int64_t task, int thread) const {
    const int64_t head = task / (pictures_ * windows_), of_head = task % (pictures_ * windows_);
    const Window at = window_at(of_head / windows_, of_head % windows_);
    float* const table = workspace_ + thread * slice_ + kLanes16;
    if (const int64_t id = head * kEdges + at.edges; *table_id(thread) != id) {
      write_table(head, at.edges, table);
      *table_id(thread) = id;
    }
    float* const q = table + round_up(tokens_ * tokens_, kLanes16);
    RaggedHead h{};
    const int64_t column = head * args_.head_dim;
    h.q = copied(args_.q, {}, at, column, q);
    h.k = copied(args_.k, args_.pad_k, at, column, q + rows_floats_);
    h.v = copied(args_.v, args_.pad_v, at, column, q + 2 * rows_floats_);
    h.out = q + 3 * rows_floats_;
    h.ldq = h.ldk = h.ldv = h.ldo = args_.head_dim;
    h.queries = h.keys = tokens_;
    h.head_dim = args_.head_dim;
    h.scale = args_.scale;
    h.packed = q + 4 * rows_floats_;
    h.scratch = h.packed + packed_floats_;
    h.table = table;
    h.ld_table = tokens_;
    isa_.ragged_pack(h);
    isa_.ragged_attend(h);
    for_points(at, [&](int64_t i, int64_t row) {
      if (row >= 0)
        std::copy_n(h.out + i * args_.head_dim, args_.head_dim, args_.out.row<float>(row) + column);
    });
  }

 private:
  struct Window {
    int64_t first_row;  // of the picture
    int64_t y, x;       // of its first point, which may lie in what fills up
    int edges;
  };

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

  // The head's rows of the window; where it is filled up, `pad`, or zeros.
  const float* copied(const Tensor& t, const Tensor& pad, const Window& at, int64_t column,
                      float* to) const {
    for_points(at, [&](int64_t i, int64_t row) {
      float* const here = to + i * args_.head_dim;
      if (row < 0 && pad.empty())
        std::fill_n(here, args_.head_dim, 0.0f);
      else
        std::copy_n((row < 0 ? pad.row<float>(0) : t.row<float>(row)) + column, args_.head_dim,
                    here);
    });
    return to;
  }

  // What is added to the scores of a window.
  void write_table(int64_t head, int edges, float* table) const {
    const int64_t n = w_.window, distances = 2 * n - 1, before = n - w_.shift;
    const float* bias = args_.bias.row<float>(head);
    for (int64_t i = 0; i < tokens_; ++i)
      for (int64_t j = 0; j < tokens_; ++j) {
        const int64_t y = i / n, x = i % n, key_y = j / n, key_x = j % n;
        const bool apart = ((edges & kBelow) != 0 && (y < before) != (key_y < before)) ||
                           ((edges & kRight) != 0 && (x < before) != (key_x < before));
        table[i * tokens_ + j] =
            bias[(y - key_y + n - 1) * distances + x - key_x + n - 1] + (apart ? kApart : 0.0f);
      }
  }

  // Which table the thread has, at the beginning of its slice.
  int64_t* table_id(int thread) const {
    return reinterpret_cast<int64_t*>(workspace_ + thread * slice_);
  }

  const ops::PictureAttentionArgs& args_;
  const PictureWindows& w_;
  const IsaKernels& isa_;
  int64_t tokens_;              // of a window
  int64_t windows_, pictures_;  // of a picture, of all
  int64_t rows_floats_, packed_floats_, slice_;
  float* workspace_;
};

}  // namespace

void picture_attention(Context& ctx, const ops::PictureAttentionArgs& args) {
  const PictureAttention attention(ctx, args);
  run_tasks(ctx, attention.tasks(), attention);
}

}  // namespace tandem::cpu
