// Attention that writes the keys and values of its own queries: the bits of write_kv and attention
// behind it, in the pages and in the result.
#include <cstdlib>
#include <numeric>
#include <string>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/backend.h"
#include "tests/kernels/cuda/attention/planned.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::indices;
using testing::kActivations;
using testing::Planned;
using testing::Random;
using testing::rounded;
using testing::to_device;

struct WriteCase {
  DType dtype, pages;
  int heads, group, head_dim, block_size;
  std::vector<std::pair<int32_t, int32_t>> sequences;  // queries, keys
  bool turned = false;
  int window = -1;
  bool sums = false;
  bool hnd = false;          // else either layout
  int32_t whole_prompt = 0;  // tokens of one more sequence, each an entry that sees all of them
};

// The queries' rows, with rows of padding between them, whose slots are negative.
class WriteProblem {
 public:
  WriteProblem(Context& ctx, Random& random, const WriteCase& c)
      : ctx_(ctx),
        case_(c),
        q_(ctx, random, numbers(random, c.heads), c.dtype, 8),
        k_(ctx, random, numbers(random, c.heads / c.group), c.dtype, 8),
        v_(ctx, random, numbers(random, c.heads / c.group), c.dtype, 8),
        planned_(ctx, sequences(random), c.heads,
                 c.pages == c.dtype && cuda::tiles_supported(c.dtype, c.head_dim, 90)),
        slots_(to_device(ctx, indices(slots_of_rows_))),
        page_indices_(to_device(ctx, indices(page_numbers_))) {
    const int64_t kv_heads = c.heads / c.group;
    planned_.plan.row_blocks = static_cast<int32_t>(random.integer(0, 3));
    planned_.plan.shared_keys = c.whole_prompt > 1;
    layout_ = c.hnd ? KvLayout::kHND : random.pick({KvLayout::kNHD, KvLayout::kHND});
    const bool nhd = layout_ == KvLayout::kNHD;
    shape_ = {std::ssize(page_numbers_), 2, nhd ? c.block_size : kv_heads,
              nhd ? kv_heads : c.block_size, c.head_dim};
    old_ = Tensor(shape_, c.pages);
    const Tensor values = random.matrix(1, old_.size());
    const std::span<const float> all(values.data<float>(), static_cast<size_t>(values.size()));
    if (page_scale_type(c.pages)) {
      const KvPages pages = testing::random_pages_in_8_bits(random, c.pages, layout_, shape_);
      old_ = pages.data;
      scales_ = pages.scales;
    } else {
      const std::vector<std::byte> bytes = testing::to_type(all, c.pages);
      std::memcpy(old_.raw(), bytes.data(), bytes.size());
    }
    if (c.turned) angles_ = to_device(ctx, random.matrix(rows_, c.head_dim / 2 / 2 * 2));
  }

  struct Result {
    Tensor out, sums, pages, scales;
  };
  Result run(bool at_once) {
    const KvPages pages{to_device(ctx_, old_), layout_,
                        scales_.empty() ? Tensor() : to_device(ctx_, scales_)};
    const ops::WriteKvArgs write{k_.tensor(), v_.tensor(), slots_, pages, {angles_, false}};
    ops::PagedAttentionArgs args{};
    args.q = q_.tensor();
    args.pages = pages;
    args.kv_page_indices = page_indices_;
    args.num_heads = case_.heads;
    args.head_dim = case_.head_dim;
    args.scale = 0.3f;
    args.causal = true;
    args.plan = &planned_.plan;
    args.window_back = case_.window;
    const Tensor nothing = Tensor::zeros({rows_, q_.tensor().dim(1)}, case_.dtype);
    args.out = to_device(ctx_, nothing);
    if (case_.sums)
      args.log_sums = to_device(ctx_, Tensor::zeros({rows_, case_.heads}, DType::kF32));
    if (at_once) args.write = &write;
    if (!at_once) ops::write_kv(ctx_, write);
    ops::paged_attention(ctx_, args);
    return {ctx_.on_host(args.out), case_.sums ? ctx_.on_host(args.log_sums) : Tensor(),
            ctx_.on_host(pages.data), scales_.empty() ? Tensor() : ctx_.on_host(pages.scales)};
  }

 private:
  Tensor numbers(Random& random, int64_t heads) {
    rows_ = 1;
    for (const auto& [queries, keys] : case_.sequences) rows_ += queries + 1;
    rows_ += case_.whole_prompt;
    return rounded(random.matrix(rows_, heads * case_.head_dim), case_.dtype);
  }
  std::vector<AttentionSequence> sequences(Random& random) {
    std::vector<AttentionSequence> out;
    slots_of_rows_.assign(static_cast<size_t>(rows_), -1);
    int32_t row = 1, pages = 0;
    for (const auto& [queries, keys] : case_.sequences) {
      out.push_back({row, queries, keys, pages, true});
      row += queries + 1;
      pages += (keys - 1) / case_.block_size + 1;
    }
    const int32_t prompt = case_.whole_prompt, prompt_pages = pages;
    for (int32_t i = 0; i < prompt; ++i) out.push_back({row + i, 1, prompt, prompt_pages, true});
    if (prompt > 0) pages += (prompt - 1) / case_.block_size + 1;
    page_numbers_.resize(static_cast<size_t>(pages));
    std::iota(page_numbers_.begin(), page_numbers_.end(), 0);
    std::shuffle(page_numbers_.begin(), page_numbers_.end(), random.engine());
    for (const AttentionSequence& s : out)
      for (int32_t i = 0; i < s.queries; ++i) {
        const bool of_prompt = prompt > 0 && s.kv_base == prompt_pages;
        const int32_t key = of_prompt ? s.query_row - row : s.keys - s.queries + i;
        const auto page = static_cast<size_t>(s.kv_base + key / case_.block_size);
        slots_of_rows_[static_cast<size_t>(s.query_row + i)] =
            page_numbers_[page] * case_.block_size + key % case_.block_size;
      }
    return out;
  }

  Context& ctx_;
  WriteCase case_;
  int64_t rows_ = 0;
  std::vector<int32_t> slots_of_rows_, page_numbers_;
  DeviceMatrix q_, k_, v_;
  Planned planned_;
  Tensor slots_, page_indices_, old_, scales_, angles_;
  KvLayout layout_ = KvLayout::kHND;
  Shape shape_;
};

void expect_the_same(Context& ctx, Random& random, const WriteCase& c) {
  WriteProblem problem(ctx, random, c);
  const WriteProblem::Result apart = problem.run(false), at_once = problem.run(true);
  const auto same = [](const Tensor& a, const Tensor& b) {
    return a.bytes() == b.bytes() && std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
  };
  EXPECT_TRUE(same(apart.pages, at_once.pages)) << "pages of " << name_of(c.pages);
  EXPECT_TRUE(same(apart.out, at_once.out))
      << name_of(c.dtype) << " " << c.heads << " heads of " << c.head_dim << ", group " << c.group;
  if (c.sums) {
    EXPECT_TRUE(same(apart.sums, at_once.sums));
  }
  if (!apart.scales.empty()) {
    EXPECT_TRUE(same(apart.scales, at_once.scales));
  }
}

// Works of one query each that see each other's keys: all are written first.
TEST(CudaAttentionWrite, KeysThatOtherWorksRead) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int32_t prompt : {2, 3, 7, 40}) {
      WriteCase c{dtype,           dtype, 2, 1, random.pick({16, 64}), random.pick({1, 3, 16}),
                  {{1, 5}, {1, 1}}};
      c.turned = random.integer(0, 1) == 1;
      c.whole_prompt = prompt;
      expect_the_same(ctx, random, c);
    }
  }
}

TEST(CudaAttentionWrite, IsWriteKvAndAttention) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int head_dim : {6, 16, 40, 64, 128, 256})
      for (const int queries : {1, 4, 8, 20}) {
        const int group = random.pick({1, 2});
        WriteCase c{dtype,
                    dtype,
                    group * static_cast<int>(random.integer(1, 2)),
                    group,
                    head_dim,
                    random.pick({1, 3, 16}),
                    {{1, 1}, {1, random.pick({33, 130})}}};
        c.sequences.push_back({queries, queries + static_cast<int32_t>(random.integer(0, 40))});
        c.turned = random.integer(0, 1) == 1;
        c.window = random.pick({-1, -1, 0, 20});
        c.sums = random.integer(0, 2) == 0;
        expect_the_same(ctx, random, c);
        for (const DType pages : testing::types_in_8_bits()) {
          c.pages = pages;
          expect_the_same(ctx, random, c);
        }
      }
  }
}

// Keys of one step on both sides of a chunk's end, and in chunks of their own.
TEST(CudaAttentionWrite, OverChunks) {
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = testing::cuda_context(dtype);
    for (const int32_t keys : {513, 514, 1026})
      for (const int window : {-1, 300})
        expect_the_same(ctx, random,
                        {dtype, dtype, 2, 1, 16, 16, {{4, keys}, {1, keys}, {2, 7}}, true, window});
  }
}

}  // namespace
}  // namespace tandem
