// Encoder and paged attention, and the pages, against the reference; the bitwise promises.
#include <algorithm>

#include "kernels/kv_pages.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::attention_test {
namespace {

using testing::indices;
using testing::near;
using testing::Random;
using testing::same_bits;

// The same bits, but of a NaN.
bool same_pages(const KvPages& a, const KvPages& b) {
  if (std::memcmp(a.data.raw(), b.data.raw(), a.data.bytes()) != 0) return false;
  for (int64_t i = 0; i < a.scales.size() && !a.scales.empty(); ++i) {
    const float x = a.scales.data<float>()[i], y = b.scales.data<float>()[i];
    if (x != y && !(std::isnan(x) && std::isnan(y))) return false;
  }
  return true;
}

class AttentionTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(AttentionTest);

const std::initializer_list<int> kHeadDims = {8, 12, 14, 16, 32, 48, 64, 80, 128};

struct Ragged {
  ops::RaggedAttentionArgs args;
  Ragged(Random& random, const std::vector<int32_t>& lengths, int heads, int head_dim) {
    std::vector<int32_t> indptr{0};
    for (int32_t n : lengths) indptr.push_back(indptr.back() + n);
    const int64_t t = indptr.back(), d = int64_t{heads} * head_dim;
    const Tensor qkv = random.matrix(t, 3 * d);
    args = {qkv.columns(0, d),
            qkv.columns(d, 2 * d),
            qkv.columns(2 * d, 3 * d),
            indices(indptr),
            heads,
            head_dim,
            1.0f / std::sqrt(static_cast<float>(head_dim)),
            random.strided(t, d)};
  }
};

TEST_P(AttentionTest, RaggedMatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 25; ++round) {
    std::vector<int32_t> lengths;
    for (int64_t s = random.integer(1, 4); s > 0; --s)
      lengths.push_back(random.pick({0, 1, 2, 6, 15, 23, 64, 65, 130}));
    Ragged r(random, lengths, static_cast<int>(random.integer(1, 3)), random.pick(kHeadDims));
    ops::RaggedAttentionArgs expected = r.args;
    expected.out = Tensor({r.args.q.dim(0), r.args.q.dim(1)}, DType::kF32);
    reference::ragged_attention(expected);
    ops::ragged_attention(ctx, r.args);
    EXPECT_TRUE(near(r.args.out, expected.out, 2e-6, 1e-5)) << "head_dim " << r.args.head_dim;
  }
}

// A sequence alone gives the bits that it has in a batch, for any number of threads.
TEST_P(AttentionTest, RaggedIsBatchInvariant) {
  Random random;
  Context one(1), three(3);
  for (int round = 0; round < 6; ++round) {
    std::vector<int32_t> lengths;
    for (int s = 0; s < 4; ++s) lengths.push_back(static_cast<int32_t>(random.integer(1, 300)));
    if (GetParam() == CpuIsa::kGeneric) lengths = {5, 40, 1, 70};
    Ragged r(random, lengths, 2, random.pick({12, 64}));
    ops::ragged_attention(three, r.args);
    const int32_t* indptr = r.args.indptr.data<int32_t>();
    for (size_t s = 0; s < lengths.size(); ++s) {
      ops::RaggedAttentionArgs alone = r.args;
      for (Tensor* t : {&alone.q, &alone.k, &alone.v}) *t = t->rows(indptr[s], indptr[s + 1]);
      alone.indptr = indices({0, lengths[s]});
      alone.out = Tensor({lengths[s], r.args.q.dim(1)}, DType::kF32);
      ops::ragged_attention(one, alone);
      EXPECT_TRUE(same_bits(alone.out, r.args.out.rows(indptr[s], indptr[s + 1])));
    }
  }
}

// Sequences with their own keys and values, to be put into pages of any shape.
struct Sequences {
  int heads, head_dim;
  std::vector<int32_t> queries, keys;
  std::vector<Tensor> k, v;  // of each sequence, [keys, heads * head_dim]
  Tensor q;

  Sequences(Random& random, int count, int heads, int head_dim, int64_t most_queries,
            int64_t most_keys)
      : heads(heads), head_dim(head_dim) {
    int32_t total = 0;
    for (int s = 0; s < count; ++s) {
      queries.push_back(static_cast<int32_t>(random.integer(0, most_queries)));
      keys.push_back(queries.back() + static_cast<int32_t>(random.integer(1, most_keys)));
      k.push_back(random.matrix(keys.back(), size()));
      v.push_back(random.matrix(keys.back(), size()));
      total += queries.back();
    }
    q = random.strided(total, size());
  }
  int64_t size() const { return int64_t{heads} * head_dim; }

  // Fills shuffled pages through write_kv and makes the arguments of paged_attention.
  ops::PagedAttentionArgs page(Context& ctx, Random& random, int block_size, KvLayout layout,
                               DType dtype, bool causal) const {
    int32_t needed = 1;
    for (int32_t n : keys) needed += (n + block_size - 1) / block_size;
    const int64_t blocks = needed + random.integer(0, 3);
    std::vector<int32_t> order(static_cast<size_t>(blocks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random.engine());
    const KvPages pages = testing::nan_pages(blocks, block_size, heads, head_dim, dtype, layout);
    std::vector<int32_t> qo{0}, kv{0}, last, used;
    for (size_t s = 0; s < keys.size(); ++s) {
      std::vector<int32_t> slots;
      for (int32_t j = 0; j < keys[s]; ++j) {
        if (j % block_size == 0) used.push_back(order[used.size()]);
        slots.push_back(used.back() * block_size + j % block_size);
      }
      ops::write_kv(ctx, {k[s], v[s], indices(slots), pages});
      qo.push_back(qo.back() + queries[s]);
      kv.push_back(static_cast<int32_t>(used.size()));
      last.push_back((keys[s] - 1) % block_size + 1);
    }
    return {q,
            pages,
            indices(qo),
            indices(kv),
            indices(used),
            indices(last),
            heads,
            head_dim,
            1.0f / std::sqrt(static_cast<float>(head_dim)),
            causal,
            Tensor({q.dim(0), size()}, DType::kF32)};
  }
};

TEST_P(AttentionTest, PagedMatchesTheReference) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 40; ++round) {
    const Sequences s(random, static_cast<int>(random.integer(1, 5)),
                      static_cast<int>(random.integer(1, 4)), random.pick(kHeadDims),
                      random.pick<int64_t>({1, 3, 20}), random.pick<int64_t>({1, 40, 100}));
    ops::PagedAttentionArgs args = s.page(
        ctx, random, random.pick({1, 2, 5, 16, 32}), random.pick({KvLayout::kNHD, KvLayout::kHND}),
        random.pick(testing::kPageTypes), random.integer(0, 1) == 1);
    const Tensor got = args.out;
    ops::paged_attention(ctx, args);
    args.out = Tensor({got.dim(0), got.dim(1)}, DType::kF32);
    reference::paged_attention(args);
    EXPECT_TRUE(near(got, args.out, 2e-6, 1e-5)) << "head_dim " << s.head_dim;
  }
}

TEST_P(AttentionTest, PagesAndLayoutsGiveTheSameBits) {
  Random random;
  Context one(1), three(3);
  for (DType dtype : testing::kPageTypes)
    for (bool causal : {false, true}) {
      const Sequences s(random, 4, 3, random.pick(kHeadDims), 20, 60);
      Tensor first;
      for (int block_size : {1, 2, 5, 16, 32})
        for (KvLayout layout : {KvLayout::kNHD, KvLayout::kHND}) {
          Context& ctx = random.integer(0, 1) ? one : three;
          const auto args = s.page(ctx, random, block_size, layout, dtype, causal);
          ops::paged_attention(ctx, args);
          if (first.empty()) first = args.out;
          EXPECT_TRUE(same_bits(args.out, first)) << "block_size " << block_size;
        }
    }
}

// Each query by itself, as in decoding, gives the bits that it has in a chunk of a prompt in a
// batch.
TEST_P(AttentionTest, ChunksAndBatchesGiveTheSameBits) {
  Random random;
  Context one(1), three(3);
  for (int round = 0; round < 6; ++round) {
    const bool causal = round % 2 == 0;
    const Sequences s(random, 3, 2, random.pick(kHeadDims), 20, 60);
    const auto args = s.page(three, random, random.pick({2, 16}), KvLayout::kHND,
                             random.pick(testing::kPageTypes), causal);
    ops::paged_attention(three, args);
    const int32_t* qo = args.qo_indptr.data<int32_t>();
    const int32_t* kv = args.kv_indptr.data<int32_t>();
    const int32_t block_size = static_cast<int32_t>(kv_strides(args.pages).block_size);
    for (size_t i = 0; i < s.keys.size(); ++i)
      for (int32_t q = 0; q < s.queries[i]; ++q) {
        ops::PagedAttentionArgs alone = args;
        const int32_t keys = causal ? s.keys[i] - s.queries[i] + q + 1 : s.keys[i];
        const int32_t pages = (keys + block_size - 1) / block_size;
        alone.q = args.q.rows(qo[i] + q, qo[i] + q + 1);
        alone.qo_indptr = indices({0, 1});
        alone.kv_indptr = indices({0, pages});
        alone.kv_page_indices = args.kv_page_indices.rows(kv[i], kv[i] + pages);
        alone.kv_last_page_len = indices({(keys - 1) % block_size + 1});
        alone.out = Tensor({1, s.size()}, DType::kF32);
        ops::paged_attention(one, alone);
        ASSERT_TRUE(same_bits(alone.out, args.out.rows(qo[i] + q, qo[i] + q + 1)));
      }
  }
}

// Beams of a request see the same pages: as one entry of several queries they get the bits that
// they get as an entry each.
TEST_P(AttentionTest, BeamsTogetherGiveTheBitsOfEachAlone) {
  Random random;
  Context one(1), three(3);
  for (int head_dim : kHeadDims)
    for (DType dtype : testing::kPageTypes) {
      Sequences s(random, 3, static_cast<int>(random.integer(1, 3)), head_dim, 0, 70);
      int32_t total = 0;
      for (int32_t& queries : s.queries)
        total += queries = static_cast<int32_t>(random.integer(1, 9));
      s.q = random.strided(total, s.size());
      const auto args = s.page(three, random, random.pick({1, 3, 16, 32}),
                               random.pick({KvLayout::kNHD, KvLayout::kHND}), dtype, false);
      ops::paged_attention(three, args);
      ops::PagedAttentionArgs apart = args;
      std::vector<int32_t> qo{0}, kv{0}, last, pages;
      for (int i = 0; i < 3; ++i)
        for (int32_t q = 0; q < s.queries[static_cast<size_t>(i)]; ++q) {
          const int32_t* indptr = args.kv_indptr.data<int32_t>();
          const int32_t* all = args.kv_page_indices.data<int32_t>();
          pages.insert(pages.end(), all + indptr[i], all + indptr[i + 1]);
          qo.push_back(qo.back() + 1);
          kv.push_back(static_cast<int32_t>(pages.size()));
          last.push_back(args.kv_last_page_len.data<int32_t>()[i]);
        }
      apart.qo_indptr = indices(qo);
      apart.kv_indptr = indices(kv);
      apart.kv_page_indices = indices(pages);
      apart.kv_last_page_len = indices(last);
      apart.out = Tensor({total, s.size()}, DType::kF32);
      ops::paged_attention(one, apart);
      EXPECT_TRUE(same_bits(args.out, apart.out)) << "head_dim " << head_dim;
    }
}

TEST(Attention, LevelsGiveTheSameBits) {
  Random random;
  Context ctx(2);
  for (int head_dim : kHeadDims) {
    const Sequences s(random, 3, 2, head_dim, 5, 70);
    const auto args = s.page(ctx, random, random.pick({5, 16}), KvLayout::kHND,
                             random.pick(testing::kPageTypes), true);
    Ragged ragged(random, {3, 70, 33}, 2, head_dim);
    Tensor first, first_ragged;
    for (CpuIsa isa : testing::available_isas()) {
      set_cpu_isa(isa);
      ops::PagedAttentionArgs a = args;
      a.out = Tensor({args.q.dim(0), s.size()}, DType::kF32);
      ops::paged_attention(ctx, a);
      ops::RaggedAttentionArgs r = ragged.args;
      r.out = Tensor({106, 2 * head_dim}, DType::kF32);
      ops::ragged_attention(ctx, r);
      if (first.empty()) first = a.out, first_ragged = r.out;
      EXPECT_TRUE(same_bits(a.out, first)) << name_of(isa);
      EXPECT_TRUE(same_bits(r.out, first_ragged)) << name_of(isa);
    }
    set_cpu_isa(best_cpu_isa());
  }
}

// Scores far apart, as large as they get: no overflow, and the far ones count for nothing.
TEST_P(AttentionTest, LargeScores) {
  Random random;
  Context ctx(1);
  Ragged r(random, {40}, 1, 16);
  for (int64_t i = 0; i < 40; ++i)
    for (int64_t d = 0; d < 16; ++d) r.args.q.row<float>(i)[d] *= 1e4f;
  ops::ragged_attention(ctx, r.args);
  ops::RaggedAttentionArgs expected = r.args;
  expected.out = Tensor({40, 16}, DType::kF32);
  reference::ragged_attention(expected);
  EXPECT_TRUE(near(r.args.out, expected.out, 1e-2, 1e-2));
}

class WriteKvTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(WriteKvTest);

TEST_P(WriteKvTest, MatchesTheReferenceAndSkipsNegativeSlots) {
  Random random;
  Context ctx(2);
  for (int round = 0; round < 45; ++round) {
    const int heads = static_cast<int>(random.integer(1, 4)), head_dim = random.pick(kHeadDims);
    const int block_size = random.pick({1, 2, 5, 16});
    const KvLayout layout = random.pick({KvLayout::kNHD, KvLayout::kHND});
    const DType dtype = random.pick(testing::kPageTypes);
    std::vector<int32_t> slots(static_cast<size_t>(6 * block_size));
    std::iota(slots.begin(), slots.end(), 0);
    std::shuffle(slots.begin(), slots.end(), random.engine());
    slots.resize(static_cast<size_t>(random.integer(1, 6 * block_size)));
    if (random.integer(0, 1)) slots[0] = -1;
    const int64_t t = static_cast<int64_t>(slots.size()), d = int64_t{heads} * head_dim;
    const auto pages = [&] {
      return testing::nan_pages(6, block_size, heads, head_dim, dtype, layout);
    };
    ops::WriteKvArgs args{random.strided(t, d), random.strided(t, d), indices(slots), pages()};
    ops::write_kv(ctx, args);
    const KvPages got = args.pages;
    args.pages = pages();
    reference::write_kv(args);
    EXPECT_TRUE(same_pages(got, args.pages)) << name_of(dtype) << ", head_dim " << head_dim;
  }
}

// Heads without a scale: of zeros, of almost nothing, with a NaN or an infinity. Others reach 127.
TEST_P(WriteKvTest, ScalesOfInt8) {
  Random random;
  Context ctx(1);
  const int head_dim = random.pick(kHeadDims);
  const auto pages = [&] {
    return testing::nan_pages(1, 1, 6, head_dim, DType::kI8, KvLayout::kHND);
  };
  const Tensor k = random.matrix(1, 6 * head_dim), v = random.matrix(1, 6 * head_dim, 1e30f);
  const auto head = [&](int h) { return k.data<float>() + h * head_dim; };
  const int64_t at = random.integer(0, head_dim - 1);
  std::fill_n(head(0), head_dim, 0.0f);
  std::fill_n(head(1), head_dim, -1e-31f);
  head(2)[at] = std::nanf("");
  head(3)[at] = -INFINITY;
  head(4)[at] = -1000;
  ops::WriteKvArgs args{k, v, indices({0}), pages()};
  ops::write_kv(ctx, args);
  const KvPages got = args.pages;
  const float* scales = got.scales.data<float>();
  const int8_t* q = got.data.data<int8_t>();
  EXPECT_EQ(scales[0], 0);
  EXPECT_EQ(scales[1], 0);
  EXPECT_TRUE(std::isnan(scales[2]) && std::isnan(scales[3]));
  EXPECT_TRUE(std::all_of(q, q + 4 * head_dim, [](int8_t x) { return x == 0; }));
  EXPECT_EQ(scales[4], 1000.0f / 127.0f);
  EXPECT_EQ(q[4 * head_dim + at], -127);
  args.pages = pages();
  reference::write_kv(args);
  EXPECT_TRUE(same_pages(got, args.pages));
}

TEST(CopyBlocks, CopiesInOrder) {
  Random random;
  Context ctx(2);
  const Tensor pool = random.matrix(8, 2 * 3 * 5 * 700).reshape({8, 2, 3, 5, 700});
  const Tensor host = Tensor::zeros({4, 2, 3, 5, 700}, DType::kF32);
  const int64_t block = 2 * 3 * 5 * 700;
  std::vector<float> before(pool.data<float>(), pool.data<float>() + pool.size());
  ops::copy_blocks(ctx, {pool, host, indices({7, 0, 2, 3})});
  EXPECT_TRUE(
      std::equal(host.row<float>(0), host.row<float>(0) + block, before.begin() + 7 * block));
  EXPECT_TRUE(
      std::equal(host.row<float>(3), host.row<float>(3) + block, before.begin() + 2 * block));
  EXPECT_EQ(host.row<float>(1)[0], 0.0f);
  ops::copy_blocks(ctx, {pool, pool, indices({0, 1, 1, 2, 3, 3})});  // 1 is written, then read
  for (int b : {0, 1, 2})
    EXPECT_TRUE(std::equal(pool.row<float>(b), pool.row<float>(b) + block, before.begin()));
  EXPECT_TRUE(
      std::equal(pool.row<float>(3), pool.row<float>(3) + block, before.begin() + 3 * block));
  ops::copy_blocks(ctx, {pool, pool, indices({})});
}

}  // namespace
}  // namespace tandem::attention_test
