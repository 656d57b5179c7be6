// Sequences whose first pages are the same read them together: each has the bits that it has alone.
#include "kernels/kv_pages.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::shared_pages_test {
namespace {

using testing::indices;
using testing::Random;
using testing::same_bits;

class SharedPagesTest : public testing::IsaTest {};
TANDEM_FOR_EACH_ISA(SharedPagesTest);

// Decoding sequences in the order of a trie: neighbours often begin with the same pages.
struct Tables {
  std::vector<std::vector<int32_t>> pages;  // of each sequence
  std::vector<int32_t> last;
  int32_t count = 0;

  Tables(Random& random, int64_t sequences, int32_t block_size) {
    for (int64_t s = 0; s < sequences; ++s) {
      std::vector<int32_t> table;
      if (s > 0 && random.integer(0, 3) > 0) {
        const auto& before = pages.back();
        const auto kept = random.integer(0, 1)
                              ? static_cast<int64_t>(before.size())
                              : random.integer(0, static_cast<int64_t>(before.size()));
        table.assign(before.begin(), before.begin() + kept);
      }
      const auto own = random.integer(table.empty() ? 1 : 0, 96 / block_size + 1);
      for (int64_t i = 0; i < own; ++i) table.push_back(count++);
      pages.push_back(table);
      last.push_back(static_cast<int32_t>(random.integer(1, block_size)));
    }
  }
};

KvPages random_pages(Random& random, int64_t count, int64_t block_size, int64_t heads,
                     int64_t head_dim) {
  KvPages pages =
      testing::nan_pages(count, block_size, heads, head_dim, random.pick(testing::kPageTypes),
                         random.pick({KvLayout::kNHD, KvLayout::kHND}));
  const auto slots = static_cast<int32_t>(count * block_size);
  std::vector<int32_t> all(static_cast<size_t>(slots));
  std::iota(all.begin(), all.end(), 0);
  reference::write_kv({random.matrix(slots, heads * head_dim),
                       random.matrix(slots, heads * head_dim), indices(all), pages});
  return pages;
}

ops::PagedAttentionArgs random_args(Random& random, const Tables& tables, int64_t block_size) {
  ops::PagedAttentionArgs args;
  const auto rows = static_cast<int64_t>(tables.pages.size());
  const int64_t kv_heads = random.integer(1, 4), group = random.integer(1, 3);
  args.num_heads = static_cast<int>(kv_heads * group);
  args.head_dim = random.pick({7, 16, 32, 64, 80});
  args.scale = 0.3f;
  args.pages = random_pages(random, tables.count, block_size, kv_heads, args.head_dim);
  args.q = random.strided(rows, args.num_heads * args.head_dim);
  args.out = random.strided(rows, args.num_heads * args.head_dim);
  args.log_sums = random.strided(rows, args.num_heads);
  args.causal = random.integer(0, 1) == 1;
  args.soft_cap = random.pick({0.0f, 5.0f});
  if (args.causal && random.integer(0, 1)) args.bias = {random.matrix(args.num_heads, 40), 35};
  return args;
}

// Those of the sequences [begin, end).
void set_tables(const Tables& tables, size_t begin, size_t end, ops::PagedAttentionArgs& args) {
  std::vector<int32_t> qo{0}, kv{0}, pages, last;
  for (size_t s = begin; s < end; ++s) {
    qo.push_back(qo.back() + 1);
    pages.insert(pages.end(), tables.pages[s].begin(), tables.pages[s].end());
    kv.push_back(static_cast<int32_t>(pages.size()));
    last.push_back(tables.last[s]);
  }
  args.qo_indptr = indices(qo);
  args.kv_indptr = indices(kv);
  args.kv_page_indices = indices(pages);
  args.kv_last_page_len = indices(last);
}

TEST_P(SharedPagesTest, EachSequenceHasTheBitsThatItHasAlone) {
  Random random;
  for (int round = 0; round < 40; ++round) {
    const auto block_size = random.pick<int32_t>({1, 4, 16});
    const Tables tables(random, random.integer(2, 20), block_size);
    Context together(static_cast<int>(random.integer(1, 3))), one(1);
    ops::PagedAttentionArgs args = random_args(random, tables, block_size);
    set_tables(tables, 0, tables.pages.size(), args);
    ops::paged_attention(together, args);
    ops::PagedAttentionArgs want = args;
    want.out = Tensor({args.q.dim(0), args.q.dim(1)}, DType::kF32);
    want.log_sums = {};
    reference::paged_attention(want);
    EXPECT_TRUE(testing::near(args.out, want.out, 1e-5, 2e-5));
    for (size_t s = 0; s < tables.pages.size(); ++s) {
      ops::PagedAttentionArgs alone = args;
      const auto row = static_cast<int64_t>(s);
      set_tables(tables, s, s + 1, alone);
      alone.q = args.q.rows(row, row + 1);
      alone.out = Tensor({1, args.out.dim(1)}, DType::kF32);
      alone.log_sums = Tensor({1, args.log_sums.dim(1)}, DType::kF32);
      ops::paged_attention(one, alone);
      EXPECT_TRUE(same_bits(args.out.rows(row, row + 1), alone.out)) << "sequence " << s;
      EXPECT_TRUE(same_bits(args.log_sums.rows(row, row + 1), alone.log_sums)) << "sequence " << s;
    }
  }
}

}  // namespace
}  // namespace tandem::shared_pages_test
