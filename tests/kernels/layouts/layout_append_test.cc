// Rows that go to pages by request and position, and the tables on the host, against the reference.
#include "base/error.h"
#include "kernels/layouts/reference_layouts.h"
#include "tests/kernels/layouts/random_layouts.h"

namespace tandem::layout_append_test {
namespace {

using testing::indices;
using testing::Random;
using testing::RandomLayouts;

Tensor copy_of(const Tensor& t) {
  if (t.rank() == 0) return t;
  const Tensor copy(t.shape(), t.dtype());
  std::memcpy(copy.raw(), t.raw(), t.bytes());
  return copy;
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.rank() == b.rank() && (a.rank() == 0 || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

class LayoutAppendTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(LayoutAppendTest);

TEST_P(LayoutAppendTest, PagesHoldWhatTheReferenceWrites) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 40; ++round) {
    RandomLayouts layouts(random, random.pick({DType::kF32, DType::kBF16}));
    const ops::AppendPagesArgs args = layouts.append();
    ops::AppendPagesArgs want = args;
    for (Tensor* t : {&want.cache.kv_cache, &want.cache.k_cache, &want.cache.v_cache})
      *t = copy_of(*t);
    reference::append_pages(want);
    ops::append_pages(ctx, args);
    EXPECT_TRUE(same_bytes(args.cache.kv_cache, want.cache.kv_cache));
    EXPECT_TRUE(same_bytes(args.cache.k_cache, want.cache.k_cache));
    EXPECT_TRUE(same_bytes(args.cache.v_cache, want.cache.v_cache));

    const ops::AppendLatentArgs latent = layouts.append_latent();
    ops::AppendLatentArgs latent_want = latent;
    for (Tensor* t :
         {&latent_want.cache.mla_cache, &latent_want.cache.ckv_cache, &latent_want.cache.kpe_cache})
      *t = copy_of(*t);
    reference::append_latent(latent_want);
    ops::append_latent(ctx, latent);
    EXPECT_TRUE(same_bytes(latent.cache.mla_cache, latent_want.cache.mla_cache));
    EXPECT_TRUE(same_bytes(latent.cache.ckv_cache, latent_want.cache.ckv_cache));
    EXPECT_TRUE(same_bytes(latent.cache.kpe_cache, latent_want.cache.kpe_cache));
  }
}

std::vector<int32_t> values_of(const Tensor& t) {
  return {t.data<int32_t>(), t.data<int32_t>() + t.dim(0)};
}

TEST(LayoutTables, PositionsAreTheLastOfEachRequest) {
  const BatchPositions made = batch_indices_positions(indices({0, 2, 2, 5}), indices({9, 4, 3}));
  EXPECT_EQ(values_of(made.batch_indices), (std::vector<int32_t>{0, 0, 2, 2, 2}));
  EXPECT_EQ(values_of(made.positions), (std::vector<int32_t>{7, 8, 0, 1, 2}));
  try {
    batch_indices_positions(indices({0, 2, 2, 5}), indices({9, 4, 2}));
    ADD_FAILURE() << "fewer tokens than are appended";
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "seq_lens");
    EXPECT_NE(std::string(error.what()).find("index 2"), std::string::npos) << error.what();
  }
}

TEST(LayoutTables, MasksBeginAtTheSumsOfProducts) {
  const Tensor qo = indices({0, 2, 2, 5}), kv = indices({0, 5, 9, 12});
  EXPECT_EQ(values_of(mask_indptr_of(qo, kv, false)), (std::vector<int32_t>{0, 10, 10, 19}));
  EXPECT_EQ(values_of(mask_indptr_of(qo, kv, true)), (std::vector<int32_t>{0, 2, 2, 4}));
  // 5, 0 and 3 tokens in pages of 3.
  const KvPageTable table{indices({0, 2, 2, 3}), indices({4, 1, 0}), indices({2, 0, 3})};
  EXPECT_EQ(values_of(mask_indptr_of(qo, table, 3, false)), (std::vector<int32_t>{0, 10, 10, 19}));
  EXPECT_EQ(values_of(packed_indptr_of(indices({0, 8, 8, 17}))),
            (std::vector<int32_t>{0, 1, 1, 3}));
  EXPECT_THROW(mask_indptr_of(indices({0, 60000}), indices({0, 60000}), false), InputError);
}

// Two rows that go to one place would leave there whichever is later.
TEST(LayoutTables, RowsThatMeetAreRefused) {
  Context ctx(1);
  ops::AppendPagesArgs args;
  args.append_key = args.append_value = Tensor::zeros({3, 1, 2}, DType::kF32);
  args.cache.k_cache = Tensor::zeros({3, 2, 1, 2}, DType::kF32);
  args.cache.v_cache = Tensor::zeros({3, 2, 1, 2}, DType::kF32);
  args.table = {indices({0, 1, 2}), indices({2, 2}), indices({2, 1})};  // both have page 2
  args.batch_indices = indices({0, 0, 1});
  args.positions = indices({0, 1, 0});
  try {
    ops::append_pages(ctx, args);
    ADD_FAILURE() << "was taken";
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "positions");
    EXPECT_NE(std::string(error.what()).find("index 2"), std::string::npos) << error.what();
  }
  args.positions = indices({0, 1, 1});
  EXPECT_THROW(ops::append_pages(ctx, args), InputError);
  args.table.kv_indices = indices({2, 0});
  ops::append_pages(ctx, args);
}

TEST(LayoutMasks, BitsAreNumpysLittleOnes) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 30; ++round) {
    std::vector<int32_t> lengths;
    for (int64_t i = random.integer(0, 5); i > 0; --i)
      lengths.push_back(random.pick({0, 1, 7, 8, 9, 16, 100}));
    const std::vector<int32_t> indptr = testing::indptr_of(lengths);
    ops::PackBitsArgs args;
    args.x = Tensor({indptr.back()}, DType::kU8);
    for (int64_t i = 0; i < indptr.back(); ++i)
      args.x.data<uint8_t>()[i] = random.pick<uint8_t>({0, 1, 2, 128});
    int64_t bytes = (indptr.back() + 7) / 8;
    if (round % 2 == 0) {
      args.indptr = indices(indptr);
      bytes = values_of(packed_indptr_of(args.indptr)).back();
    }
    args.packed = Tensor::zeros({bytes}, DType::kU8);
    ops::PackBitsArgs want = args;
    want.packed = Tensor::zeros({bytes}, DType::kU8);
    reference::pack_bits(want);
    ops::pack_bits(ctx, args);
    EXPECT_EQ(std::memcmp(args.packed.raw(), want.packed.raw(), static_cast<size_t>(bytes)), 0);
  }
}

}  // namespace
}  // namespace tandem::layout_append_test
