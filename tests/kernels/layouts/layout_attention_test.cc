// Attention over FlashInfer's layouts against the reference, at every level; the bitwise promises.
#include "kernels/layouts/reference_layouts.h"
#include "tests/kernels/layouts/random_layouts.h"

namespace tandem::layout_attention_test {
namespace {

using testing::close_to;
using testing::Random;
using testing::RandomLayouts;
using testing::same_bits;

class LayoutAttentionTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(LayoutAttentionTest);

constexpr int kRounds = 60;
constexpr double kAllowed = 3e-6;

// The reference's outputs for the same arguments.
template <class Args>
Args expected_of(Args args, void (*reference)(const Args&)) {
  args.out = RandomLayouts::unwritten(args.out.shape());
  args.lse = RandomLayouts::unwritten(args.lse.shape());
  reference(args);
  return args;
}

template <class Args>
void expect_the_reference(Args args, void (*op)(Context&, const Args&),
                          void (*reference)(const Args&), const char* name) {
  Context ctx(2);
  const Args want = expected_of(args, reference);
  op(ctx, args);
  EXPECT_TRUE(close_to(args.out, want.out, kAllowed)) << name;
  EXPECT_TRUE(close_to(args.lse, want.lse, kAllowed)) << name;
  args.lse = {};
  args.out = RandomLayouts::unwritten(args.out.shape());
  op(ctx, args);
  EXPECT_TRUE(close_to(args.out, want.out, kAllowed)) << name << " without lse";
}

TEST_P(LayoutAttentionTest, AllLayoutsMatchTheReference) {
  Random random;
  for (int round = 0; round < kRounds; ++round) {
    RandomLayouts layouts(random, random.pick({DType::kF32, DType::kBF16}));
    SCOPED_TRACE("round " + std::to_string(round));
    expect_the_reference(layouts.ragged(), ops::attend_ragged, reference::attend_ragged, "ragged");
    expect_the_reference(layouts.pages(), ops::attend_pages, reference::attend_pages, "pages");
    expect_the_reference(layouts.latent(), ops::attend_latent, reference::attend_latent, "latent");
    std::vector<ops::CascadeLevel> levels;
    expect_the_reference(layouts.cascade(levels), ops::attend_cascade, reference::attend_cascade,
                         "cascade");
    expect_the_reference(layouts.states(), ops::merge_states, reference::merge_states, "states");
  }
}

// The same tokens in pages of any size, or one after the other, give the same bits; so does any
// number of threads, and a query alone.
TEST_P(LayoutAttentionTest, BitsDependOnNothingButTheKeys) {
  Random random;
  Context one(1), three(3);
  for (const int64_t dim : {8, 64, 72}) {
    const auto keys = static_cast<int32_t>(random.integer(100, 300)), queries = 7;
    const auto tensor = [&](const Shape& shape) {
      return random.matrix(1, shape[0] * shape[1] * shape[2]).reshape(shape);
    };
    ops::AttendRaggedArgs ragged;
    ragged.q = tensor({queries, 4, dim});
    ragged.k = tensor({keys, 2, dim});
    ragged.v = tensor({keys, 2, dim});
    ragged.qo_indptr = testing::indices({0, queries});
    ragged.kv_indptr = testing::indices({0, keys});
    ragged.scores = {0.2f, 0.0f, true};
    ragged.out = RandomLayouts::unwritten(ragged.q.shape());
    ops::attend_ragged(three, ragged);
    const auto rows = [&](const Tensor& t) { return t.reshape({t.dim(0), t.size() / t.dim(0)}); };
    for (const int64_t page_size : {1, 5, 16, 512}) {
      const int64_t pages = (keys + page_size - 1) / page_size;
      ops::AttendPagesArgs paged;
      paged.q = ragged.q;
      paged.qo_indptr = ragged.qo_indptr;
      paged.cache.k_cache = Tensor::zeros({pages, page_size, 2, dim}, DType::kF32);
      paged.cache.v_cache = Tensor::zeros({pages, page_size, 2, dim}, DType::kF32);
      std::memcpy(paged.cache.k_cache.raw(), ragged.k.raw(), ragged.k.bytes());
      std::memcpy(paged.cache.v_cache.raw(), ragged.v.raw(), ragged.v.bytes());
      std::vector<int32_t> all(static_cast<size_t>(pages));
      std::iota(all.begin(), all.end(), 0);
      paged.table = {testing::indices({0, static_cast<int32_t>(pages)}), testing::indices(all),
                     testing::indices({static_cast<int32_t>(keys - (pages - 1) * page_size)})};
      paged.scores = ragged.scores;
      paged.out = RandomLayouts::unwritten(paged.q.shape());
      ops::attend_pages(one, paged);
      EXPECT_TRUE(same_bits(rows(paged.out), rows(ragged.out))) << "pages of " << page_size;
    }
    // The last query alone stands behind the same keys.
    ops::AttendRaggedArgs last = ragged;
    last.q = ragged.q.rows(queries - 1, queries);
    last.qo_indptr = testing::indices({0, 1});
    last.out = RandomLayouts::unwritten(last.q.shape());
    ops::attend_ragged(one, last);
    EXPECT_TRUE(same_bits(rows(last.out), rows(ragged.out.rows(queries - 1, queries))));
  }
}

// What a mask or a bias hides may hold anything, an infinity too.
TEST_P(LayoutAttentionTest, HiddenKeysMayHoldInfinities) {
  Context ctx(1);
  ops::AttendRaggedArgs args;
  args.q = Tensor({1, 1, 4}, DType::kF32);
  args.k = Tensor({3, 1, 4}, DType::kF32);
  args.v = Tensor({3, 1, 4}, DType::kF32);
  for (const Tensor& t : {args.q, args.k, args.v}) std::fill_n(t.data<float>(), t.size(), 1.0f);
  std::fill_n(args.k.row<float>(1), 2, INFINITY);
  args.k.row<float>(1)[1] = -INFINITY;  // its product is no number
  args.qo_indptr = testing::indices({0, 1});
  args.kv_indptr = testing::indices({0, 3});
  args.out = RandomLayouts::unwritten({1, 1, 4});
  std::vector<uint8_t> mask = {1, 0, 1}, packed = {5};
  std::vector<float> bias = {0, -INFINITY, 0};
  for (int way = 0; way < 3; ++way) {
    args.scores = {};
    if (way == 0) args.scores.custom_mask = Tensor::borrow(mask);
    if (way == 1) args.scores.packed_custom_mask = Tensor::borrow(packed);
    if (way == 2) args.scores.bias = Tensor::borrow(bias);
    ops::attend_ragged(ctx, args);
    for (int d = 0; d < 4; ++d) EXPECT_EQ(args.out.data<float>()[d], 1.0f) << "way " << way;
  }
}

}  // namespace
}  // namespace tandem::layout_attention_test
