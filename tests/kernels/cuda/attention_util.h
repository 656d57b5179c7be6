// Attention problems for the CUDA kernels: sequences with their own queries, keys and values, laid
// out in rows or pages of any shape, run on the device and by the reference.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/launch.cuh"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::testing {

// To nearest, ties to even; |v| below 65520.
inline uint16_t float_to_f16(float v) {
  const uint16_t sign = std::signbit(v) ? 0x8000 : 0;
  if (std::isnan(v)) return 0x7e00;
  if (std::isinf(v)) return sign | 0x7c00;
  int exponent = -14;
  if (v != 0) exponent = std::max(exponent, std::ilogb(v));
  const auto units = static_cast<uint16_t>(std::nearbyint(std::ldexp(std::abs(v), 10 - exponent)));
  // 1024 units carry into the exponent by themselves.
  return sign | static_cast<uint16_t>(((exponent + 14) << 10) + units);
}

inline std::vector<std::byte> to_type(std::span<const float> values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * size_of(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t half = dtype == DType::kF16 ? float_to_f16(values[i]) : float_to_bf16(values[i]);
    if (dtype == DType::kF32) {
      std::memcpy(bytes.data() + i * 4, &values[i], 4);
    } else {
      std::memcpy(bytes.data() + i * 2, &half, 2);
    }
  }
  return bytes;
}

inline std::vector<float> from_type(std::span<const std::byte> bytes, DType dtype) {
  std::vector<float> values(bytes.size() / size_of(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t half = 0;
    std::memcpy(dtype == DType::kF32 ? static_cast<void*>(&values[i]) : &half,
                bytes.data() + i * size_of(dtype), size_of(dtype));
    if (dtype != DType::kF32)
      values[i] = dtype == DType::kF16 ? f16_to_float(half) : bf16_to_float(half);
  }
  return values;
}

// A copy of host memory on the device.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::span<const std::byte> from) : size_(from.size()) {
    TANDEM_CUDA_CHECK(cudaMalloc(&data_, std::max<size_t>(1, size_)));
    TANDEM_CUDA_CHECK(cudaMemcpy(data_, from.data(), size_, cudaMemcpyHostToDevice));
  }
  template <class T>
  explicit DeviceBytes(const std::vector<T>& from) : DeviceBytes(std::as_bytes(std::span(from))) {}
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  ~DeviceBytes() { cudaFree(data_); }

  void* get() const { return data_; }
  template <class T = std::byte>
  std::vector<T> to_host() const {
    std::vector<T> to(size_ / sizeof(T));
    TANDEM_CUDA_CHECK(cudaMemcpy(to.data(), data_, size_, cudaMemcpyDeviceToHost));
    return to;
  }

 private:
  void* data_ = nullptr;
  size_t size_;
};

struct AttentionLayout {
  int block_size = 0;  // 0: rows
  KvLayout layout = KvLayout::kHND;
  bool tiles = false;
  bool odd_strides = false;  // rows begin anywhere
  int padding = 0;           // work without queries behind the rest
  bool any_queries = false;  // of rows: do not tell the kernel how many queries there are
  bool f8 = false;           // pages in 8 bits, of keys and values that are (round_to_f8)
};

struct AttentionProblem {
  struct Sequence {
    Tensor q, k, v;  // [queries or keys, heads * head_dim] f32, as rounded to the type
    bool causal;
  };
  DType dtype;
  int heads, head_dim;
  std::vector<Sequence> sequences;
  ops::PositionBias bias = {};

  int64_t width() const { return int64_t{heads} * head_dim; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

  Tensor rounded(Random& random, int64_t rows, float size) const {
    const Tensor t = random.matrix(rows, width(), size);
    const std::span<float> all(t.data<float>(), static_cast<size_t>(t.size()));
    std::ranges::copy(from_type(to_type(all, dtype), dtype), all.begin());
    return t;
  }
  // Larger q_size: softmaxes of few keys.
  void add(Random& random, int64_t queries, int64_t keys, bool causal, float q_size = 1.0f) {
    sequences.push_back({rounded(random, queries, q_size), rounded(random, keys, 1.0f),
                         rounded(random, keys, 1.0f), causal});
  }
  AttentionProblem alone(size_t i) const { return {dtype, heads, head_dim, {sequences[i]}, bias}; }
};

// Rows of head_dim values as f8 pages hold them.
struct F8Rows {
  std::vector<std::byte> bytes;
  std::vector<uint8_t> scales;

  F8Rows(const std::vector<float>& values, int head_dim) : bytes(values.size()) {
    const int64_t rows = std::ssize(values) / head_dim;
    scales.resize(static_cast<size_t>(rows));
    const Tensor x = Tensor::borrow(values).reshape({rows, head_dim});
    const KvPages pages{Tensor({rows, 2, 1, 1, head_dim}, DType::kF8E4M3), KvLayout::kNHD,
                        Tensor({rows, 2, 1, 1}, DType::kU8)};
    std::vector<int32_t> slots(static_cast<size_t>(rows));
    std::iota(slots.begin(), slots.end(), 0);
    reference::write_kv({x, x, indices(slots), pages});
    for (int64_t i = 0; i < rows; ++i) {
      std::memcpy(bytes.data() + i * head_dim,
                  static_cast<const std::byte*>(pages.data.raw()) + 2 * i * head_dim,
                  static_cast<size_t>(head_dim));
      scales[static_cast<size_t>(i)] = pages.scales.data<uint8_t>()[2 * i];
    }
  }
};

// Keys and values to what f8 pages hold of them.
inline void round_to_f8(AttentionProblem& problem) {
  for (auto& s : problem.sequences)
    for (Tensor* t : {&s.k, &s.v}) {
      const std::vector<float> values(t->data<float>(), t->data<float>() + t->size());
      const F8Rows rows(values, problem.head_dim);
      *t = Tensor(t->shape(), DType::kF32);
      for (size_t i = 0; i < values.size(); ++i)
        t->data<float>()[i] =
            std::ldexp(e4m3_to_float(std::to_integer<uint8_t>(rows.bytes[i])),
                       rows.scales[i / static_cast<size_t>(problem.head_dim)] - 127);
    }
}

// The reference's result for each sequence.
inline std::vector<Tensor> expected(const AttentionProblem& problem) {
  std::vector<Tensor> results;
  for (const auto& s : problem.sequences) {
    const int64_t keys = s.k.dim(0), width = problem.width();
    KvPages pages{Tensor({keys, 2, 1, problem.heads, problem.head_dim}, DType::kF32),
                  KvLayout::kNHD};
    for (int64_t j = 0; j < keys; ++j) {
      std::copy_n(s.k.row<float>(j), width, pages.data.data<float>() + 2 * j * width);
      std::copy_n(s.v.row<float>(j), width, pages.data.data<float>() + (2 * j + 1) * width);
    }
    std::vector<int32_t> all(static_cast<size_t>(keys));
    std::iota(all.begin(), all.end(), 0);
    results.emplace_back(s.q.shape(), DType::kF32);
    reference::paged_attention({s.q, pages, indices({0, static_cast<int32_t>(s.q.dim(0))}),
                                indices({0, static_cast<int32_t>(keys)}), indices(all),
                                indices({1}), problem.heads, problem.head_dim, problem.scale(),
                                s.causal, results.back(), nullptr, problem.bias});
  }
  return results;
}

// Runs the problem on the device. What does not belong to it is NaN, and must stay as it is.
class AttentionRun {
 public:
  AttentionRun(const AttentionProblem& problem, const AttentionLayout& layout, Random& random)
      : problem_(problem), layout_(layout) {
    constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
    stride_ = problem.width() + (layout.odd_strides ? 1 : 8 * random.integer(0, 2));
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
      copy_rows(problem.sequences[s].q, q_, sequences_[s].query_row);
    if (layout.block_size > 0) {
      fill_pages(pages, random);
    } else {
      k_.assign(static_cast<size_t>(keys * stride_), kNone);
      v_ = k_;
      for (size_t s = 0; s < sequences_.size(); ++s) {
        copy_rows(problem.sequences[s].k, k_, sequences_[s].kv_base);
        copy_rows(problem.sequences[s].v, v_, sequences_[s].kv_base);
      }
    }
  }

  // Of each sequence. `times`: one call after the other.
  std::vector<Tensor> operator()(int times = 1) {
    const DType type = problem_.dtype;
    AttentionPlan plan = plan_attention(sequences_, layout_.tiles);
    EXPECT_EQ(plan.tiles.empty(), !layout_.tiles)
        << "the case should have tiles, and only if asked";
    for (auto* list : {&plan.rows, &plan.tiles})
      list->resize(list->size() + static_cast<size_t>(layout_.padding));
    const F8Rows f8(layout_.f8 ? pages_ : std::vector<float>(), problem_.head_dim);
    const DeviceBytes q(to_type(q_, type)), k(to_type(k_, type)), v(to_type(v_, type)),
        pages(layout_.f8 ? f8.bytes : to_type(pages_, type)), page_indices(page_indices_),
        rows(plan.rows), tiles(plan.tiles), scales(f8.scales);
    const Tensor& table = problem_.bias.values;
    const DeviceBytes bias(std::span(static_cast<const std::byte*>(table.raw()), table.bytes()));
    const DeviceBytes out(to_type(std::vector<float>(q_.size(), 7.0f), type));
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
    if (layout_.f8) p.scales = static_cast<const uint8_t*>(scales.get());
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
      p.k_stride = p.v_stride = stride_;
    }
    for (int i = 0; i < times; ++i) {
      p.work = static_cast<const AttentionWork*>(rows.get());
      p.work_count = static_cast<int32_t>(plan.rows.size());
      p.most_queries = layout_.any_queries ? kRowsPerBlock : std::max(1, plan.row_queries);
      cuda::attention_rows(p, nullptr);
      p.work = static_cast<const AttentionWork*>(tiles.get());
      p.work_count = static_cast<int32_t>(plan.tiles.size());
      if (layout_.tiles) cuda::attention_tiles(p, nullptr);
    }
    TANDEM_CUDA_CHECK(cudaDeviceSynchronize());
    for (int32_t ticket : tickets.to_host<int32_t>()) EXPECT_EQ(ticket, 0);
    return results(from_type(out.to_host(), type));
  }

 private:
  void copy_rows(const Tensor& from, std::vector<float>& to, int64_t first) const {
    for (int64_t i = 0; i < from.dim(0); ++i)
      std::copy_n(from.row<float>(i), problem_.width(), to.begin() + (first + i) * stride_);
  }

  void set_strides(cuda::AttentionParams& p) const {
    const int64_t d = problem_.head_dim, h = problem_.heads, b = layout_.block_size;
    const bool nhd = layout_.layout == KvLayout::kNHD;
    p.value_offset = b * h * d;
    p.page_stride = 2 * b * h * d;
    p.head_stride = nhd ? d : b * d;
    p.token_stride = nhd ? h * d : d;
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
        for (int head = 0; head < problem_.heads; ++head) {
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
  }

  // The rows of the sequences; all others must be untouched.
  std::vector<Tensor> results(std::vector<float> out) const {
    std::vector<Tensor> all;
    for (const AttentionSequence& s : sequences_) {
      all.emplace_back(Shape{s.queries, problem_.width()}, DType::kF32);
      for (int32_t i = 0; i < s.queries; ++i) {
        const auto row = out.begin() + (s.query_row + i) * stride_;
        std::copy_n(row, problem_.width(), all.back().row<float>(i));
        std::fill_n(row, problem_.width(), 7.0f);
      }
    }
    EXPECT_EQ(std::ranges::count(out, 7.0f), std::ssize(out)) << "written beside the rows";
    return all;
  }

  const AttentionProblem& problem_;
  AttentionLayout layout_;
  int64_t stride_;
  std::vector<AttentionSequence> sequences_;
  std::vector<float> q_, k_, v_, pages_;
  std::vector<int32_t> page_indices_;
};

// What the result's type, and tiles' weights in it, leave of the reference's value.
inline ::testing::AssertionResult close(const Tensor& got, const Tensor& want, DType dtype,
                                        bool tiles) {
  if (dtype == DType::kF32) return near(got, want, 4e-6, 1e-5);
  const double half_ulp = dtype == DType::kF16 ? 0x1p-11 : 0x1p-8;
  return near(got, want, tiles ? 4 * half_ulp : 1e-5, 1.05 * half_ulp);
}

inline void expect_reference(const AttentionProblem& problem, const AttentionLayout& layout,
                             Random& random) {
  const std::vector<Tensor> want = expected(problem);
  const std::vector<Tensor> got = AttentionRun(problem, layout, random)();
  for (size_t s = 0; s < want.size(); ++s)
    EXPECT_TRUE(close(got[s], want[s], problem.dtype, layout.tiles))
        << name_of(problem.dtype) << " sequence " << s << ": " << want[s].dim(0) << " queries, "
        << problem.sequences[s].k.dim(0) << " keys, " << problem.heads << " heads of "
        << problem.head_dim << ", pages of " << layout.block_size
        << (problem.sequences[s].causal ? ", causal" : "");
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

}  // namespace tandem::testing
