// The CPU's attention among tokens with boxes, some sequences at a time. First a task is a token:
// it writes which biases by boxes its pairs have, for all heads. Then a task is a head of a
// sequence: it writes the table of what is added to its scores, and is encoder attention.
#include <algorithm>

#include "kernels/box_distance.h"
#include "kernels/cpu/isa/isa.h"
#include "kernels/cpu/ops_cpu.h"

namespace tandem::cpu {
namespace {

// Of all pairs' places, unless one sequence has more.
constexpr size_t kMostPlaceBytes = size_t{64} << 20;

// Where a pair of tokens has its biases in a head's rows of them.
struct Places {
  int32_t down, across;
};

class BoxAttention {
 public:
  BoxAttention(Context& ctx, const ops::BoxAttentionArgs& args)
      : args_(args),
        isa_(isa_kernels()),
        starts_(args.indptr.data<int32_t>()),
        sequences_(args.indptr.dim(0) - 1) {
    int64_t longest = 1;
    size_t most = 1;
    for (int64_t s = 0; s < sequences_; ++s) {
      longest = std::max(longest, tokens(s));
      most = std::max(most, pairs_until(s, end_of_some(s)));
    }
    table_floats_ = round_up(longest * longest, kLanes16);
    packed_floats_ = ragged_packed_floats(longest, args.head_dim);
    slice_ = table_floats_ + packed_floats_ + ragged_scratch_floats(longest, args.head_dim);
    const size_t floats = static_cast<size_t>(slice_ * ctx.threads());
    workspace_ = static_cast<float*>(ctx.workspace(floats * sizeof(float) + most * sizeof(Places)));
    places_ = reinterpret_cast<Places*>(workspace_ + floats);
  }

  void run(Context& ctx) {
    for (int64_t first = 0; first < sequences_; first = last_) {
      first_ = first;
      last_ = end_of_some(first);
      auto places = [this](int64_t task, int) { write_places(starts_[first_] + task); };
      auto heads = [this](int64_t task, int thread) {
        attend(first_ + task / args_.num_heads, task % args_.num_heads, thread);
      };
      run_tasks(ctx, starts_[last_] - starts_[first_], places);
      run_tasks(ctx, (last_ - first_) * args_.num_heads, heads);
    }
  }

 private:
  int64_t tokens(int64_t s) const { return starts_[s + 1] - starts_[s]; }
  size_t pairs_until(int64_t s, int64_t end) const {
    size_t out = 0;
    for (; s < end; ++s) out += static_cast<size_t>(tokens(s) * tokens(s));
    return out;
  }
  // At least one sequence.
  int64_t end_of_some(int64_t s) const {
    int64_t end = s + 1;
    while (end < sequences_ && pairs_until(s, end + 1) * sizeof(Places) <= kMostPlaceBytes) ++end;
    return end;
  }

  void write_places(int64_t row) const {
    const int64_t s =
        std::upper_bound(starts_ + first_, starts_ + last_, static_cast<int32_t>(row)) - starts_ -
        1;
    const int64_t count = tokens(s), i = row - starts_[s];
    const float* from = args_.boxes.row<float>(row);
    Places* places = places_ + pairs_until(first_, s) + static_cast<size_t>(i * count);
    for (int64_t j = 0; j < count; ++j) {
      const float* to = args_.boxes.row<float>(starts_[s] + j);
      places[j] = {place_of(args_.down, box_distance(from, to, 1)),
                   place_of(args_.across, box_distance(from, to, 0))};
    }
  }

  static int32_t place_of(const ops::PositionBias& bias, int64_t distance) {
    return static_cast<int32_t>(
        std::clamp<int64_t>(distance + bias.zero, 0, bias.values.dim(1) - 1));
  }

  void write_table(int64_t s, int64_t head, float* table) const {
    const int64_t count = tokens(s);
    const float* down = args_.down.values.row<float>(head);
    const float* across = args_.across.values.row<float>(head);
    const float* bias = args_.bias.values.row<float>(head);
    const Places* places = places_ + pairs_until(first_, s);
    for (int64_t i = 0; i < count; ++i, places += count, table += count) {
      // Keys nearer to the beginning have the first bias by distance, those behind `end` the last.
      const int64_t first = i - args_.bias.zero, distances = args_.bias.values.dim(1),
                    begin = std::clamp<int64_t>(first, 0, count),
                    end = std::clamp<int64_t>(first + distances, begin, count);
      const auto add = [&](int64_t j, float by_distance) {
        table[j] = down[places[j].down] + (across[places[j].across] + by_distance);
      };
      int64_t j = 0;
      for (; j < begin; ++j) add(j, bias[0]);
      for (; j < end; ++j) add(j, bias[j - first]);
      for (; j < count; ++j) add(j, bias[distances - 1]);
    }
  }

  void attend(int64_t s, int64_t head, int thread) const {
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

  const ops::BoxAttentionArgs& args_;
  const IsaKernels& isa_;
  const int32_t* starts_;
  int64_t sequences_;
  int64_t first_ = 0, last_ = 0;  // the sequences at a time
  int64_t table_floats_ = 0, packed_floats_ = 0, slice_ = 0;
  float* workspace_ = nullptr;
  Places* places_ = nullptr;  // [tokens][tokens] of each sequence
};

}  // namespace

void box_attention(Context& ctx, const ops::BoxAttentionArgs& args) {
  BoxAttention(ctx, args).run(ctx);
}

}  // namespace tandem::cpu
