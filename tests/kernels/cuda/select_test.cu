// select of the CUDA device against the CPU's, on rows with ties, NaNs and infinities.
#include <bit>
#include <limits>

#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::indices;
using testing::Random;
using testing::to_device;

constexpr float kInf = std::numeric_limits<float>::infinity();

Tensor random_logits(Random& random, int64_t rows, int64_t size) {
  const Tensor logits = random.matrix(rows, size, 4.0f);
  for (int64_t i = 0; i < rows; ++i) {
    float* row = logits.row<float>(i);
    const int64_t kind = random.integer(0, 9);
    if (kind == 0) std::fill_n(row, size, -kInf);
    if (kind <= 2)  // ties
      for (int64_t j = 0; j < size; ++j) row[j] = static_cast<float>(random.integer(-2, 2));
    if (kind == 3) row[random.integer(0, size - 1)] = std::nanf("");
    if (kind == 4) row[random.integer(0, size - 1)] = kInf;
    if (kind == 5)
      for (int64_t j = 0; j < size; ++j)
        if (random.integer(0, 2) > 0) row[j] = -kInf;
    if (kind == 6) row[random.integer(0, size - 1)] = -0.0f;
  }
  return logits;
}

// A problem of select, on the host.
struct SelectProblem {
  SelectProblem(Random& random, int64_t rows, int64_t size, int best)
      : logits(random_logits(random, rows, size)), k(best) {
    std::vector<int32_t> all_flags, starts{0}, list;
    for (int64_t row = 0; row < rows; ++row) {
      all_flags.push_back(static_cast<int32_t>(random.integer(0, 3)));
      int32_t id = static_cast<int32_t>(random.integer(0, 3));
      while (id < size && random.integer(0, 5) > 0) {
        for (int64_t n = random.integer(1, 3); n > 0; --n) add(random, list, id);
        id += static_cast<int32_t>(random.integer(1, std::max<int64_t>(2, size / 4)));
      }
      starts.push_back(static_cast<int32_t>(list.size() / 3));
    }
    flags = indices(all_flags);
    indptr = indices(starts);
    edits = indices(list).reshape({static_cast<int64_t>(list.size() / 3), 3});
    if (random.integer(0, 1) == 0) mask(random);
  }
  // Sparse and dense masks, also one that leaves nothing; rows share them, or have none.
  void mask(Random& random) {
    const int64_t rows = logits.dim(0), words = (logits.dim(1) + 31) / 32,
                  count = random.integer(1, rows);
    std::vector<int32_t> bits, of_rows;
    for (int64_t m = 0; m < count; ++m)
      for (int64_t kind = random.integer(0, 2), word = 0; word < words; ++word)
        bits.push_back(kind == 0 ? 0
                                 : static_cast<int32_t>(random.integer(0, 0xffffffff)) &
                                       (kind == 1 && word % 7 != 0 ? 0 : -1));
    for (int64_t row = 0; row < rows; ++row)
      of_rows.push_back(static_cast<int32_t>(random.integer(-1, count - 1)));
    masks = indices(bits).reshape({count, words});
    mask_rows = indices(of_rows);
  }
  static void add(Random& random, std::vector<int32_t>& list, int32_t id) {
    const auto edit = static_cast<int32_t>(random.integer(0, 3));
    const float value = random.integer(0, 4) == 0 ? -kInf : 0.5f + std::abs(random.normal());
    const bool finite = edit == static_cast<int32_t>(ops::LogitEdit::kPenalise) ||
                        edit == static_cast<int32_t>(ops::LogitEdit::kFavour);
    list.insert(list.end(), {id, edit, std::bit_cast<int32_t>(finite && value < 0 ? 2.0f : value)});
  }
  ops::SelectArgs outputs(const std::function<Tensor(const Shape&, DType)>& make) const {
    const int64_t rows = logits.dim(0);
    ops::SelectArgs args;
    args.k = k;
    args.log_sums = make({rows}, DType::kF32);
    args.edited = make({edits.dim(0)}, DType::kF32);
    args.ids = make({rows, k}, DType::kI32);
    args.values = make({rows, k}, DType::kF32);
    return args;
  }
  Tensor logits, flags, indptr, edits;
  Tensor masks, mask_rows;  // or empty
  int k;
};

bool same_value(float a, float b, float tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= tolerance * (1 + std::abs(b));
}

// `processed`: the CPU's rows after its processors. Log softmax subtracts a log-sum that may differ
// in its last bits, and so may the order of what is nearly equal.
void expect_best(const SelectProblem& p, const ops::SelectArgs& want, const ops::SelectArgs& got,
                 const Tensor& processed) {
  for (int64_t row = 0; row < p.logits.dim(0); ++row) {
    SCOPED_TRACE("row " + std::to_string(row) + " of " + std::to_string(p.logits.dim(1)) +
                 ", flags " + std::to_string(p.flags.data<int32_t>()[row]));
    const bool exact = (p.flags.data<int32_t>()[row] & ops::kRowLogSoftmax) == 0 ||
                       (p.flags.data<int32_t>()[row] & ops::kRowMasked) != 0;
    const float tolerance = exact ? 0 : 1e-5f;
    EXPECT_TRUE(
        same_value(got.log_sums.data<float>()[row], want.log_sums.data<float>()[row], 1e-5f))
        << got.log_sums.data<float>()[row] << ", not " << want.log_sums.data<float>()[row];
    std::vector<int32_t> ids;
    for (int n = 0; n < p.k; ++n) {
      const int32_t id = got.ids.row<int32_t>(row)[n];
      const float value = got.values.row<float>(row)[n];
      EXPECT_TRUE(same_value(value, want.values.row<float>(row)[n], tolerance))
          << n << ": " << value << ", not " << want.values.row<float>(row)[n];
      ASSERT_TRUE(id >= 0 && id < p.logits.dim(1)) << id;
      EXPECT_TRUE(same_value(processed.row<float>(row)[id], value, tolerance)) << id;
      if (exact) {
        EXPECT_EQ(id, want.ids.row<int32_t>(row)[n]) << n;
      }
      ids.push_back(id);
    }
    std::ranges::sort(ids);
    EXPECT_EQ(std::ranges::adjacent_find(ids), ids.end()) << "chosen twice";
  }
}

TEST(CudaSelect, IsTheCpus) {
  Random random;
  Context cpu(1), ctx = testing::cuda_context(DType::kBF16);
  for (const int64_t size : {1, 2, 33, 512, 700, 3000, 50265})
    for (int round = 0; round < 6; ++round) {
      const int k = static_cast<int>(
          std::min<int64_t>(size, random.pick<int64_t>({1, 2, 5, 9, ops::kMaxSelect})));
      const SelectProblem p(random, random.integer(1, 5), size, k);
      const DeviceMatrix logits(ctx, random, p.logits, DType::kF32);
      ops::SelectArgs want = p.outputs([](const Shape& s, DType t) { return Tensor(s, t); });
      want.logits = p.logits;
      want.flags = p.flags;
      want.edit_indptr = p.indptr;
      want.edits = p.edits;
      want.masks = p.masks;
      want.mask_rows = p.mask_rows;
      ops::select(cpu, want);
      ops::SelectArgs got =
          p.outputs([&](const Shape& s, DType t) { return ctx.backend().allocate(s, t); });
      got.logits = logits.tensor();
      got.flags = to_device(ctx, p.flags);
      got.edit_indptr = to_device(ctx, p.indptr);
      got.edits = to_device(ctx, p.edits);
      if (!p.masks.empty()) {
        got.masks = to_device(ctx, p.masks);
        got.mask_rows = to_device(ctx, p.mask_rows);
      }
      ops::select(ctx, got);
      for (Tensor* t : {&got.log_sums, &got.edited, &got.ids, &got.values}) *t = ctx.on_host(*t);
      expect_best(p, want, got, want.logits);
      for (int64_t e = 0; e < p.edits.dim(0); ++e)
        EXPECT_TRUE(same_value(got.edited.data<float>()[e], want.edited.data<float>()[e], 0)) << e;
    }
}

// Rows that are kept, their best, and where chosen tokens stand in them; f32 in a context of
// another type.
TEST(CudaRankTokens, OfKeptRows) {
  Random random;
  Context cpu(1), ctx = testing::cuda_context(random.pick({DType::kF32, DType::kF16}));
  for (const int64_t size : {1, 2, 33, 512, 700, 3001, 50265}) {
    const int64_t rows = random.integer(1, 5), kept = random.integer(1, 7);
    const Tensor logits = random_logits(random, rows, size);
    std::vector<int32_t> of, chosen;
    for (int64_t i = 0; i < kept; ++i) of.push_back(random.integer(0, rows - 1));
    for (int64_t i = 0; i < rows + 2; ++i) chosen.push_back(random.integer(0, size - 1));
    const DeviceMatrix from(ctx, random, logits, DType::kF32);
    DeviceMatrix to(ctx, random, kept, size, DType::kF32);
    const Tensor of_there = to_device(ctx, indices(of));
    ops::gather_rows(ctx, {from.tensor(), of_there, to.tensor()});
    SelectProblem p(random, kept, size, static_cast<int>(std::min<int64_t>(size, 8)));
    ops::SelectArgs best =
        p.outputs([&](const Shape& s, DType t) { return ctx.backend().allocate(s, t); });
    const std::vector<int32_t> zeros(static_cast<size_t>(kept) + 1);
    best.logits = to.tensor();
    best.edit_indptr = to_device(ctx, indices(zeros));
    best.flags = best.edit_indptr.rows(0, kept);
    best.edits = to_device(ctx, indices({0, 0, 0})).reshape({1, 3}).rows(0, 0);
    best.edited = ctx.backend().allocate({1}, DType::kF32).rows(0, 0);
    ops::select(ctx, best);
    const Tensor values = ctx.backend().allocate({kept}, DType::kF32);
    const Tensor ranks = ctx.backend().allocate({kept}, DType::kI32);
    ops::rank_tokens(ctx, {to.tensor(), of_there, to_device(ctx, indices(chosen)), values, ranks});
    const Tensor raw = to.values(), value = ctx.on_host(values), rank = ctx.on_host(ranks);
    const Tensor ids = ctx.on_host(best.ids);
    const Tensor cpu_values({kept}, DType::kF32), cpu_ranks({kept}, DType::kI32);
    ops::rank_tokens(cpu, {raw, indices(of), indices(chosen), cpu_values, cpu_ranks});
    for (int64_t i = 0; i < kept; ++i) {
      SCOPED_TRACE("row " + std::to_string(i) + " of " + std::to_string(size));
      const float *want = logits.row<float>(of[i]), *row = raw.row<float>(i);
      for (int64_t j = 0; j < size; ++j) ASSERT_TRUE(same_value(row[j], want[j], 0)) << j;
      const float own = want[chosen[of[i]]];
      const auto above = std::count_if(want, want + size, [&](float x) { return x > own; });
      EXPECT_TRUE(same_value(value.data<float>()[i], own, 0));
      EXPECT_TRUE(same_value(cpu_values.data<float>()[i], own, 0));
      EXPECT_EQ(rank.data<int32_t>()[i], above + 1);
      EXPECT_EQ(cpu_ranks.data<int32_t>()[i], above + 1);
      for (int k = 0; k < p.k; ++k) {
        // Before it: NaNs, what is larger, equals of lower ids.
        const int32_t id = ids.row<int32_t>(i)[k];
        int64_t before = 0;
        for (int64_t j = 0; j < size; ++j) {
          const bool nan = std::isnan(want[j]), own_nan = std::isnan(want[id]);
          const bool equal = nan || own_nan ? nan && own_nan : want[j] == want[id];
          before += equal ? j < id : nan || want[j] > want[id];
        }
        EXPECT_EQ(before, k);
      }
    }
  }
}

}  // namespace
}  // namespace tandem
