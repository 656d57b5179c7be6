// Runs attention problems on the device, laid out in rows or pages of any shape.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/launch.cuh"
#include "tests/kernels/cuda/attention/attention_problem.h"

namespace tandem::testing {

struct AttentionLayout {
  int block_size = 0;  // 0: rows
  KvLayout layout = KvLayout::kHND;
  bool tiles = false;
  bool odd_strides = false;  // rows begin anywhere
  int padding = 0;           // work without queries behind the rest
  bool any_queries = false;  // of rows: do not tell the kernel how many queries there are
  // Pages of keys before all windows, from multiples of 256 keys on, are at no address.
  bool unseen_nowhere = false;
  // Pages in f8 or i8, of keys and values that are (round_to_8_bits).
  std::optional<DType> in_8_bits = {};
};

// Runs the problem on the device. What does not belong to it is NaN, and must stay as it is.
class AttentionRun {
 public:
  AttentionRun(const AttentionProblem& problem, const AttentionLayout& layout, Random& random)
      : problem_(problem), layout_(layout) {
    constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
    if (random.integer(0, 1) == 1) blocks_ = static_cast<int32_t>(random.integer(1, 6));
    stride_ = problem.width() + (layout.odd_strides ? 1 : 8 * random.integer(0, 2));
    kv_stride_ = problem.kv_width() + (layout.odd_strides ? 1 : 8 * random.integer(0, 2));
    int32_t rows = 1, keys = 0, pages = 0;
    for (const auto& s : problem.sequences) {
      const auto queries = static_cast<int32_t>(s.q.dim(0)), n = static_cast<int32_t>(s.k.dim(0));
      sequences_.push_back({rows, queries, n, layout.block_size > 0 ? pages : keys, s.causal});
      rows += queries + static_cast<int32_t>(random.integer(0, 1));
      keys += n;
      if (layout.block_size > 0) pages += (n + layout.block_size - 1) / layout.block_size;
    }
    q_.assign(static_cast<size_t>(rows * stride_), kNone);
    for (size_t s = 0; s < sequences_.size(); ++s)
      copy_rows(problem.sequences[s].q, q_, sequences_[s].query_row, stride_);
    if (layout.block_size > 0) {
      fill_pages(pages, random);
    } else {
      k_.assign(static_cast<size_t>(keys * kv_stride_), kNone);
      v_ = k_;
      for (size_t s = 0; s < sequences_.size(); ++s) {
        copy_rows(problem.sequences[s].k, k_, sequences_[s].kv_base, kv_stride_);
        copy_rows(problem.sequences[s].v, v_, sequences_[s].kv_base, kv_stride_);
      }
    }
  }

  // Results of each sequence. `times`: one call after the other.
  std::vector<Tensor> operator()(int times = 1) { return run(times).out; }

  AttentionResults run(int times = 1) {
    const DType type = problem_.dtype;
    AttentionPlan plan = plan_attention(sequences_, layout_.tiles);
    EXPECT_EQ(plan.tiles.empty(), !layout_.tiles)
        << "the case should have tiles, and only if asked";
    for (auto* list : {&plan.rows, &plan.tiles})
      list->resize(list->size() + static_cast<size_t>(layout_.padding));
    std::vector<std::byte> stored, of_rows;
    store_pages(stored, of_rows);
    const DeviceBytes q(to_type(q_, type)), k(to_type(k_, type)), v(to_type(v_, type)),
        pages(stored), page_indices(page_indices_), rows(plan.rows), tiles(plan.tiles),
        scales(of_rows);
    const Tensor& table = problem_.bias.values;
    const DeviceBytes bias(std::span(static_cast<const std::byte*>(table.raw()), table.bytes()));
    const DeviceBytes out(to_type(std::vector<float>(q_.size(), kBeside), type));
    const auto log_sums_stride = int64_t{problem_.heads} + 1;
    const DeviceBytes log_sums(std::vector<float>(
        q_.size() / static_cast<size_t>(stride_) * static_cast<size_t>(log_sums_stride), kBeside));
    const auto heads = static_cast<size_t>(problem_.heads);
    const DeviceBytes partials(std::vector<float>(
        static_cast<size_t>(plan.partials) * heads * static_cast<size_t>(problem_.head_dim + 2),
        std::numeric_limits<float>::quiet_NaN()));
    const DeviceBytes tickets(std::vector<int32_t>(static_cast<size_t>(plan.tickets) * heads, 0));
    cuda::AttentionParams p{};
    p.dtype = type;
    p.q = q.get();
    p.out = out.get();
    p.q_stride = p.out_stride = stride_;
    p.partials = static_cast<float*>(partials.get());
    p.tickets = static_cast<int32_t*>(tickets.get());
    p.num_heads = problem_.heads;
    p.head_dim = problem_.head_dim;
    p.scale = problem_.scale();
    p.group = problem_.group;
    p.soft_cap = problem_.soft_cap;
    p.window_back = problem_.window.back;
    p.window_ahead = problem_.window.ahead;
    if (problem_.log_sums) {
      p.log_sums = static_cast<float*>(log_sums.get());
      p.log_sums_stride = log_sums_stride;
    }
    if (layout_.in_8_bits) {
      p.page_type = *layout_.in_8_bits;
      p.scales = scales.get();
    }
    if (!table.empty()) {
      p.bias = static_cast<const float*>(bias.get());
      p.bias_columns = static_cast<int32_t>(table.dim(1));
      p.bias_zero = problem_.bias.zero;
    }
    if (layout_.block_size > 0) {
      p.pages = pages.get();
      p.page_indices = static_cast<const int32_t*>(page_indices.get());
      p.block_size = layout_.block_size;
      set_strides(p);
    } else {
      p.k = k.get();
      p.v = v.get();
      p.k_stride = p.v_stride = kv_stride_;
    }
    for (int i = 0; i < times; ++i) {
      p.work = static_cast<const AttentionWork*>(rows.get());
      p.work_count = static_cast<int32_t>(plan.rows.size());
      p.blocks = blocks_;
      p.most_queries = layout_.any_queries ? kRowsPerBlock : std::max(1, plan.row_queries);
      cuda::attention_rows(p, nullptr);
      p.work = static_cast<const AttentionWork*>(tiles.get());
      p.work_count = static_cast<int32_t>(plan.tiles.size());
      if (layout_.tiles) cuda::attention_tiles(p, nullptr);
    }
    TANDEM_CUDA_CHECK(cudaDeviceSynchronize());
    for (int32_t ticket : tickets.to_host<int32_t>()) EXPECT_EQ(ticket, 0);
    AttentionResults all{results(from_type(out.to_host(), type), stride_, problem_.width()), {}};
    const std::vector<Tensor> sums =
        results(log_sums.to_host<float>(), log_sums_stride, problem_.log_sums ? problem_.heads : 0);
    if (problem_.log_sums) all.log_sums = sums;
    return all;
  }

 private:
  static constexpr float kBeside = 7.0f;

  static void copy_rows(const Tensor& from, std::vector<float>& to, int64_t first, int64_t stride) {
    for (int64_t i = 0; i < from.dim(0); ++i)
      std::copy_n(from.row<float>(i), from.dim(1), to.begin() + (first + i) * stride);
  }

  void set_strides(cuda::AttentionParams& p) const {
    const int64_t d = problem_.head_dim, h = problem_.kv_heads(), b = layout_.block_size;
    const bool nhd = layout_.layout == KvLayout::kNHD;
    p.value_offset = b * h * d;
    p.page_stride = 2 * b * h * d;
    p.head_stride = nhd ? d : b * d;
    p.token_stride = nhd ? h * d : d;
  }

  void store_pages(std::vector<std::byte>& pages, std::vector<std::byte>& scales) const {
    if (!layout_.in_8_bits) {
      pages = to_type(pages_, problem_.dtype);
      return;
    }
    const RowsIn8Bits rows(*layout_.in_8_bits, pages_, problem_.head_dim);
    const auto bytes = [](const Tensor& t) {
      const auto* at = static_cast<const std::byte*>(t.raw());
      return std::vector<std::byte>(at, at + t.bytes());
    };
    pages = bytes(rows.data);
    scales = bytes(rows.scales);
  }

  // Shuffled pages, some of which are nobody's.
  void fill_pages(int32_t used, Random& random) {
    cuda::AttentionParams strides{};
    set_strides(strides);
    std::vector<int32_t> order(static_cast<size_t>(used + random.integer(1, 3)));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random.engine());
    pages_.assign(order.size() * static_cast<size_t>(strides.page_stride),
                  std::numeric_limits<float>::quiet_NaN());
    page_indices_.assign(order.begin(), order.begin() + used);
    for (size_t s = 0; s < sequences_.size(); ++s)
      for (int32_t j = 0; j < sequences_[s].keys; ++j)
        for (int head = 0; head < problem_.kv_heads(); ++head) {
          const int64_t page =
              page_indices_[static_cast<size_t>(sequences_[s].kv_base + j / layout_.block_size)];
          const auto at = pages_.begin() + page * strides.page_stride +
                          j % layout_.block_size * strides.token_stride +
                          head * strides.head_stride;
          const int64_t column = int64_t{head} * problem_.head_dim;
          std::copy_n(problem_.sequences[s].k.row<float>(j) + column, problem_.head_dim, at);
          std::copy_n(problem_.sequences[s].v.row<float>(j) + column, problem_.head_dim,
                      at + strides.value_offset);
        }
    if (layout_.unseen_nowhere) lose_unseen_pages();
  }

  void lose_unseen_pages() {
    for (const AttentionSequence& s : sequences_) {
      const int32_t first = s.keys - s.queries - problem_.window.back;
      for (int32_t j = 0; (j + 1) * layout_.block_size <= first / 256 * 256; ++j)
        page_indices_[static_cast<size_t>(s.kv_base + j)] = 1 << 28;
    }
  }

  // The rows of the sequences, the first `columns` of each; all else must be untouched.
  std::vector<Tensor> results(std::vector<float> values, int64_t stride, int64_t columns) const {
    std::vector<Tensor> all;
    for (const AttentionSequence& s : sequences_) {
      all.emplace_back(Shape{s.queries, columns}, DType::kF32);
      for (int32_t i = 0; i < s.queries; ++i) {
        const auto row = values.begin() + (s.query_row + i) * stride;
        std::copy_n(row, columns, all.back().row<float>(i));
        std::fill_n(row, columns, kBeside);
      }
    }
    EXPECT_EQ(std::ranges::count(values, kBeside), std::ssize(values)) << "written beside the rows";
    return all;
  }

  const AttentionProblem& problem_;
  AttentionLayout layout_;
  int64_t stride_, kv_stride_;
  int32_t blocks_ = 0;  // that take works in turn
  std::vector<AttentionSequence> sequences_;
  std::vector<float> q_, k_, v_, pages_;
  std::vector<int32_t> page_indices_;
};

// What the result's type, and tiles' weights in it, leave of the reference's value. In f32, scores
// of 256 channels differ by a few 1e-6 in another order of sums, and weights by as much.
inline ::testing::AssertionResult close(const Tensor& got, const Tensor& want, DType dtype,
                                        bool tiles) {
  if (dtype == DType::kF32) return near(got, want, 1e-5, 1e-5);
  const double half_ulp = dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
  return near(got, want, tiles ? 4 * half_ulp : 1e-5, 1.05 * half_ulp);
}

inline void expect_reference(const AttentionProblem& problem, const AttentionLayout& layout,
                             Random& random) {
  const AttentionResults want = expected(problem);
  const AttentionResults got = AttentionRun(problem, layout, random).run();
  for (size_t s = 0; s < want.out.size(); ++s) {
    const auto about = [&] {
      return std::string(name_of(problem.dtype)) + " sequence " + std::to_string(s) + ": " +
             std::to_string(want.out[s].dim(0)) + " queries, " +
             std::to_string(problem.sequences[s].k.dim(0)) + " keys, " +
             std::to_string(problem.heads) + " heads of " + std::to_string(problem.head_dim) +
             ", pages of " + std::to_string(layout.block_size) +
             (problem.sequences[s].causal ? ", causal" : "") + ", group " +
             std::to_string(problem.group) + ", cap " + std::to_string(problem.soft_cap) +
             ", window " + std::to_string(problem.window.back) + " " +
             std::to_string(problem.window.ahead);
    };
    EXPECT_TRUE(close(got.out[s], want.out[s], problem.dtype, layout.tiles)) << about();
    if (problem.log_sums) {
      EXPECT_TRUE(near(got.log_sums[s], want.log_sums[s], 2e-5, 2e-6)) << about();
    }
  }
}

inline AttentionLayout random_layout(Random& random) {
  AttentionLayout layout;
  layout.block_size = random.pick({0, 1, 2, 3, 16, 16, 32, 1000});
  layout.layout = random.pick({KvLayout::kNHD, KvLayout::kHND});
  layout.odd_strides = random.integer(0, 3) == 0;
  layout.padding = static_cast<int>(random.integer(0, 2));
  layout.any_queries = random.integer(0, 3) == 0;
  return layout;
}

// Queries of the last positions, alone and together, in every kind of memory: the same bits,
// whatever others of their item see.
inline void expect_own_bits_of_rows(const AttentionProblem& batch, Random& random) {
  AttentionLayout layout = random_layout(random);
  layout.odd_strides = false;
  const AttentionResults together = AttentionRun(batch, layout, random).run();
  for (size_t s = 0; s < batch.sequences.size(); ++s)
    for (int64_t i = 0; i < batch.sequences[s].q.dim(0); i += 3) {
      AttentionProblem alone = batch.alone(s);
      auto& one = alone.sequences[0];
      const int64_t seen = one.causal ? one.k.dim(0) - one.q.dim(0) + i + 1 : one.k.dim(0);
      one = {one.q.rows(i, i + 1), one.k.rows(0, seen), one.v.rows(0, seen), true};
      layout.block_size = random.pick({0, 1, 2, 16});
      layout.layout = random.pick({KvLayout::kNHD, KvLayout::kHND});
      layout.any_queries = random.integer(0, 1) == 1;
      const AttentionResults got = AttentionRun(alone, layout, random).run();
      EXPECT_TRUE(
          same_bits(got.out[0], together.out[s].rows(i, i + 1)) &&
          (!batch.log_sums || same_bits(got.log_sums[0], together.log_sums[s].rows(i, i + 1))))
          << name_of(batch.dtype) << " heads of " << batch.head_dim << ", sequence " << s
          << ", query " << i << ", window " << batch.window.back << ", block size "
          << layout.block_size;
    }
}

// The last queries of a prompt with and without those before them: in other places of a tile.
inline void expect_own_bits_of_tiles(const AttentionProblem& batch, Random& random) {
  AttentionLayout layout = random_layout(random);
  layout.tiles = true;
  layout.odd_strides = false;
  const std::vector<Tensor> together = AttentionRun(batch, layout, random)();
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    AttentionProblem alone = batch.alone(s);
    Tensor& q = alone.sequences[0].q;
    const int64_t all = q.dim(0), first = all - random.integer(9, 17);
    q = q.rows(first, all);
    layout.block_size = random.pick({0, 1, 2, 16});
    EXPECT_TRUE(same_bits(AttentionRun(alone, layout, random)()[0], together[s].rows(first, all)))
        << name_of(batch.dtype) << " sequence " << s << ", queries from " << first;
  }
}

}  // namespace tandem::testing
