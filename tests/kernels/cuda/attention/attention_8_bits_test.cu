// Keys and values in 8 bits: conversions, what is written to pages, and attention over them.
#include "tests/kernels/cuda/attention/attention_util.h"
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::AttentionLayout;
using testing::AttentionProblem;
using testing::AttentionRun;
using testing::DeviceMatrix;
using testing::expect_reference;
using testing::indices;
using testing::kAttentionTypes;
using testing::Random;
using testing::random_layout;
using testing::same_bits;
using testing::to_device;

// Of the pages' type.
class CudaAttentionIn8Bits : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (GetParam() == DType::kF8E4M3 && !testing::cuda_context(DType::kF32).backend().f8_pages())
      GTEST_SKIP() << "the device has no 8-bit floats";
  }
};

AttentionLayout layout_of(Random& random, DType pages) {
  AttentionLayout layout = random_layout(random);
  layout.in_8_bits = pages;
  if (layout.block_size == 0) layout.block_size = 16;
  return layout;
}

TEST_P(CudaAttentionIn8Bits, MatchesTheReference) {
  Random random;
  for (int head_dim : {1, 7, 16, 32, 40, 64, 72, 80, 128, 200, 256})
    for (DType dtype : kAttentionTypes) {
      AttentionProblem problem{dtype, static_cast<int>(random.integer(1, 3)), head_dim, {}};
      if (random.integer(0, 2) == 0)
        problem.bias = {random.matrix(problem.heads, 33), static_cast<int32_t>(16)};
      for (int64_t count = random.integer(1, 5); count > 0; --count) {
        const int queries = random.pick({0, 1, 1, 2, 3, 4, 8, 9, 20});
        const int keys = random.pick({1, 2, 31, 32, 33, 200});
        problem.add(random, queries, std::max(queries, keys),
                    !problem.bias.values.empty() || random.integer(0, 1) == 1,
                    random.pick({1.0f, 4.0f}));
      }
      round_to_8_bits(problem, GetParam());
      expect_reference(problem, layout_of(random, GetParam()), random);
    }
}

TEST_P(CudaAttentionIn8Bits, MatchesTheReferenceOverChunks) {
  Random random;
  for (DType dtype : kAttentionTypes) {
    AttentionProblem problem{dtype, 2, random.pick({7, 16, 64}), {}};
    problem.add(random, 1, 1100, true);
    problem.add(random, random.pick({2, 4, 9}), random.pick({512, 513}), false);
    round_to_8_bits(problem, GetParam());
    expect_reference(problem, layout_of(random, GetParam()), random);
  }
}

TEST_P(CudaAttentionIn8Bits, AQueryHasItsOwnBits) {
  Random random;
  for (DType dtype : kAttentionTypes) {
    AttentionProblem batch{dtype, 2, random.pick({16, 40, 64, 128}), {}};
    batch.add(random, 4, random.pick({5, 130, 515}), false, 3.0f);
    batch.add(random, 8, 20, false);
    round_to_8_bits(batch, GetParam());
    AttentionLayout layout = layout_of(random, GetParam());
    layout.odd_strides = false;
    const std::vector<Tensor> together = AttentionRun(batch, layout, random)();
    for (size_t s = 0; s < batch.sequences.size(); ++s)
      for (int64_t i = 0; i < batch.sequences[s].q.dim(0); i += 3) {
        AttentionProblem alone = batch.alone(s);
        Tensor& q = alone.sequences[0].q;
        q = q.rows(i, i + 1);
        layout.block_size = random.pick({1, 2, 16});
        layout.layout = random.pick({KvLayout::kNHD, KvLayout::kHND});
        layout.any_queries = random.integer(0, 1) == 1;
        EXPECT_TRUE(same_bits(AttentionRun(alone, layout, random)()[0], together[s].rows(i, i + 1)))
            << name_of(dtype) << " heads of " << batch.head_dim << ", sequence " << s << ", query "
            << i << ", block size " << layout.block_size;
      }
  }
}

// Rows of every size, with zeros, NaN and infinities: the reference's bytes and scales, and nothing
// beside them.
TEST_P(CudaAttentionIn8Bits, Writes) {
  Random random;
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (const DType dtype : kAttentionTypes) {
    Context ctx = testing::cuda_context(dtype);
    for (int round = 0; round < 10; ++round) {
      const int64_t blocks = 4, block_size = random.pick<int64_t>({1, 3, 16}),
                    heads = random.integer(1, 5), head_dim = random.pick<int64_t>({1, 5, 16, 72});
      const KvLayout layout = random.pick({KvLayout::kNHD, KvLayout::kHND});
      const bool nhd = layout == KvLayout::kNHD;
      const Shape shape = {blocks, 2, nhd ? block_size : heads, nhd ? heads : block_size, head_dim};
      std::vector<int32_t> slots(static_cast<size_t>(blocks * block_size));
      std::iota(slots.begin(), slots.end(), 0);
      std::shuffle(slots.begin(), slots.end(), random.engine());
      slots.resize(static_cast<size_t>(random.integer(1, std::ssize(slots))));
      slots[0] = random.pick({-1, slots[0]});
      const auto tokens = std::ssize(slots);
      Tensor k = random.matrix(tokens, heads * head_dim), v = random.matrix(k.dim(0), k.dim(1));
      for (Tensor* t : {&k, &v}) {
        for (int64_t i = 0; i < tokens; ++i) {
          const float size = random.pick({0.0f, 1e-38f, 1e-30f, 6e-8f, 1e-3f, 1.0f, 448.0f, 5e3f});
          for (int64_t d = 0; d < t->dim(1); ++d) t->row<float>(i)[d] *= size;
          const int64_t at = random.integer(0, t->dim(1) - 1);
          t->row<float>(i)[at] =
              random.pick({t->row<float>(i)[at], 0.0f, kInf, -kInf, NAN, 448.0f});
        }
        *t = testing::rounded(*t, dtype);
      }
      const KvPages want{
          Tensor::zeros(shape, GetParam()), layout,
          Tensor::zeros({shape[0], 2, shape[2], shape[3]}, *page_scale_type(GetParam()))};
      const KvPages pages{to_device(ctx, want.data), layout, to_device(ctx, want.scales)};
      reference::write_kv({k, v, indices(slots), want});
      const int64_t step = random.pick<int64_t>({1, 8});
      const DeviceMatrix keys(ctx, random, k, dtype, step), values(ctx, random, v, dtype, step);
      ops::write_kv(ctx, {keys.tensor(), values.tensor(), to_device(ctx, indices(slots)), pages});
      for (const auto& [device, host] :
           {std::pair(pages.data, want.data), {pages.scales, want.scales}})
        EXPECT_EQ(std::memcmp(ctx.on_host(device).raw(), host.raw(), host.bytes()), 0)
            << name_of(dtype) << " " << to_string(shape) << ", " << tokens << " tokens";
    }
  }
}

// A NaN stays one: in all of a key's scores, and in its element of a value or, in i8, in all of
// the value.
TEST_P(CudaAttentionIn8Bits, NaNs) {
  Random random;
  AttentionProblem problem{DType::kF16, 1, 64, {}};
  for (int i = 0; i < 2; ++i) problem.add(random, 2, 40, true);
  problem.sequences[0].v.row<float>(39)[3] = NAN;
  problem.sequences[1].k.row<float>(39)[3] = NAN;
  round_to_8_bits(problem, GetParam());
  const std::vector<Tensor> got = AttentionRun(problem, layout_of(random, GetParam()), random)();
  for (size_t s = 0; s < 2; ++s)
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t d = 0; d < 64; ++d)
        ASSERT_EQ(std::isnan(got[s].row<float>(i)[d]),
                  i == 1 && (s == 1 || d == 3 || GetParam() == DType::kI8))
            << "sequence " << s << ", query " << i << ", element " << d;
}

INSTANTIATE_TEST_SUITE_P(, CudaAttentionIn8Bits, ::testing::Values(DType::kF8E4M3, DType::kI8),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace tandem
