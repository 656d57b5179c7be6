// The CPU's attention by relative positions. A task is a head of a sequence. What queries and
// distances make is a table, which encoder attention adds to its scores.
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

constexpr int64_t kQueries = 2 * kRaggedRows;  // at a time

float dot(const float* a, const float* b, int64_t n) {
  float sums[kLanes16] = {};
  const int64_t whole = n / kLanes16 * kLanes16;
  for (int64_t i = 0; i < whole; i += kLanes16)
    for (int64_t lane = 0; lane < kLanes16; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  for (int64_t i = whole; i < n; ++i) sums[i - whole] += a[i] * b[i];
  for (int64_t step = kLanes16 / 2; step > 0; step /= 2)
    for (int64_t lane = 0; lane < step; ++lane) sums[lane] += sums[lane + step];
  return sums[0];
}

class RelativeAttention {
 public:
  RelativeAttention(Context& ctx, const ops::RelativeAttentionArgs& args)
      : args_(args), isa_(isa_kernels()), starts_(args.indptr.data<int32_t>()) {
    for (int64_t s = 0; s + 1 < args.indptr.dim(0); ++s)
      longest_ = std::max<int64_t>(longest_, starts_[s + 1] - starts_[s]);
    rows_floats_ = round_up(kQueries * args.head_dim, kLanes16);
    table_floats_ = round_up(kQueries * longest_, kLanes16);
    packed_floats_ = ragged_packed_floats(longest_, args.head_dim);
    slice_ = rows_floats_ + round_up(args.head_dim, kLanes16) + table_floats_ + packed_floats_ +
             ragged_scratch_floats(longest_, args.head_dim);
    workspace_ = static_cast<float*>(
        ctx.workspace(static_cast<size_t>(slice_ * ctx.threads()) * sizeof(float)));
  }

  int64_t tasks() const { return (args_.indptr.dim(0) - 1) * args_.num_heads; }

  void operator()(int64_t task, int thread) const {
    const int64_t begin = starts_[task / args_.num_heads],
                  end = starts_[task / args_.num_heads + 1];
    if (begin == end) return;
    const int64_t column = task % args_.num_heads * args_.head_dim;
    float* const rows = workspace_ + thread * slice_;
    float* const query = rows + rows_floats_;
    float* const table = query + round_up(args_.head_dim, kLanes16);
    RaggedHead h{};
    h.q = rows;
    h.k = args_.k.row<float>(begin) + column;
    h.v = args_.v.row<float>(begin) + column;
    h.ldq = args_.head_dim;
    h.ldk = args_.k.row_stride();
    h.ldv = args_.v.row_stride();
    h.ldo = args_.out.row_stride();
    h.keys = end - begin;
    h.head_dim = args_.head_dim;
    h.scale = args_.scale;
    h.packed = table + table_floats_;
    h.scratch = h.packed + packed_floats_;
    h.table = table;
    h.ld_table = h.keys;
    isa_.ragged_pack(h);
    for (int64_t first = 0; first < h.keys; first += kQueries) {
      h.queries = std::min(kQueries, h.keys - first);
      for (int64_t i = 0; i < h.queries; ++i) {
        const float* q = args_.q.row<float>(begin + first + i) + column;
        for (int64_t d = 0; d < args_.head_dim; ++d) {
          rows[i * args_.head_dim + d] = q[d] + args_.q_bias.data<float>()[column + d];
          query[d] = q[d] + args_.d_bias.data<float>()[column + d];
        }
        write_distances(query, column, first + i, h.keys, table + i * h.keys);
      }
      h.out = args_.out.row<float>(begin + first) + column;
      isa_.ragged_attend(h);
    }
  }

 private:
  // What is added to the scores of the query of that position.
  void write_distances(const float* query, int64_t column, int64_t position, int64_t keys,
                       float* out) const {
    for (int64_t j = 0; j < keys; ++j)
      out[j] =
          args_.scale * dot(query, args_.distances.row<float>(args_.zero + j - position) + column,
                            args_.head_dim);
  }

  const ops::RelativeAttentionArgs& args_;
  const IsaKernels& isa_;
  const int32_t* starts_;
  int64_t longest_ = 0;
  int64_t rows_floats_ = 0, table_floats_ = 0, packed_floats_ = 0, slice_ = 0;
  float* workspace_ = nullptr;
};

}  // namespace

void relative_attention(Context& ctx, const ops::RelativeAttentionArgs& args) {
  const RelativeAttention attention(ctx, args);
  run_tasks(ctx, attention.tasks(), attention);
}

}  // namespace tandem::cpu
