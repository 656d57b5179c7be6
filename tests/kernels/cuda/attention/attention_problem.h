// Attention problems for the CUDA kernels: sequences with their own queries, keys and values, and
// what the reference makes of them.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <numeric>
#include <span>
#include <vector>

#include "tests/kernels/cuda/device_bytes.h"

namespace tandem::testing {

// Of queries, and of keys and values that are not in 8 bits.
inline const std::initializer_list<DType> kAttentionTypes = {DType::kF32, DType::kF16,
                                                             DType::kBF16};

struct AttentionProblem {
  struct Sequence {
    Tensor q, k, v;  // [queries, heads * head_dim], [keys, kv_heads * head_dim] f32, as rounded
    bool causal;
  };
  DType dtype;
  int heads, head_dim;
  std::vector<Sequence> sequences;
  ops::PositionBias bias = {};
  int group = 1;  // heads that share a head of keys and values
  float soft_cap = 0.0f;
  // Ahead: of sequences that are not causal; those have as many keys as queries, if it is set.
  ops::Window window = {};
  bool log_sums = false;  // of pages

  int kv_heads() const { return heads / group; }
  int64_t width() const { return int64_t{heads} * head_dim; }
  int64_t kv_width() const { return int64_t{kv_heads()} * head_dim; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

  Tensor rounded(Random& random, int64_t rows, int64_t columns, float size) const {
    const Tensor t = random.matrix(rows, columns, size);
    const std::span<float> all(t.data<float>(), static_cast<size_t>(t.size()));
    std::ranges::copy(from_type(to_type(all, dtype), dtype), all.begin());
    return t;
  }
  // Larger q_size: softmaxes of few keys.
  void add(Random& random, int64_t queries, int64_t keys, bool causal, float q_size = 1.0f) {
    sequences.push_back({rounded(random, queries, width(), q_size),
                         rounded(random, keys, kv_width(), 1.0f),
                         rounded(random, keys, kv_width(), 1.0f), causal});
  }
  AttentionProblem alone(size_t i) const {
    AttentionProblem one = *this;
    one.sequences = {sequences[i]};
    return one;
  }
};

// Element i of pages in 8 bits on the host, or of rows: times its scale.
inline float value_in_8_bits(const Tensor& data, const Tensor& scales, int64_t i) {
  const int64_t row = i / data.dim(data.rank() - 1);
  const auto x = static_cast<float>(reference::element(data.raw(), data.dtype(), i));
  return data.dtype() == DType::kI8 ? x * scales.data<float>()[row]
                                    : std::ldexp(x, scales.data<uint8_t>()[row] - 127);
}

// Rows of head_dim values as such pages hold them.
struct RowsIn8Bits {
  Tensor data, scales;  // [rows, head_dim], [rows]

  RowsIn8Bits(DType pages_type, const std::vector<float>& values, int head_dim) {
    const int64_t rows = std::ssize(values) / head_dim;
    const DType scale_type = *page_scale_type(pages_type);
    data = Tensor({rows, head_dim}, pages_type);
    scales = Tensor({rows}, scale_type);
    const Tensor x = Tensor::borrow(values).reshape({rows, head_dim});
    const KvPages pages{Tensor({rows, 2, 1, 1, head_dim}, pages_type), KvLayout::kNHD,
                        Tensor({rows, 2, 1, 1}, scale_type)};
    std::vector<int32_t> slots(static_cast<size_t>(rows));
    std::iota(slots.begin(), slots.end(), 0);
    reference::write_kv({x, x, indices(slots), pages});
    const auto keys = [&](const Tensor& from, const Tensor& to) {
      const size_t size = to.bytes() / static_cast<size_t>(rows);
      for (size_t i = 0; i < static_cast<size_t>(rows); ++i)
        std::memcpy(static_cast<std::byte*>(to.raw()) + i * size,
                    static_cast<const std::byte*>(from.raw()) + 2 * i * size, size);
    };
    keys(pages.data, data);
    keys(pages.scales, scales);
  }
};

// Keys and values to what such pages hold of them.
inline void round_to_8_bits(AttentionProblem& problem, DType pages) {
  for (auto& s : problem.sequences)
    for (Tensor* t : {&s.k, &s.v}) {
      const std::vector<float> values(t->data<float>(), t->data<float>() + t->size());
      const RowsIn8Bits rows(pages, values, problem.head_dim);
      *t = Tensor(t->shape(), DType::kF32);
      for (int64_t i = 0; i < t->size(); ++i)
        t->data<float>()[i] = value_in_8_bits(rows.data, rows.scales, i);
    }
}

// Of each sequence.
struct AttentionResults {
  std::vector<Tensor> out;       // [queries, heads * head_dim]
  std::vector<Tensor> log_sums;  // [queries, heads], if the problem asks for them
};

inline void reference_of_pages(const AttentionProblem& problem, const AttentionProblem::Sequence& s,
                               const Tensor& out, const Tensor& log_sums) {
  const int64_t keys = s.k.dim(0), width = problem.kv_width();
  KvPages pages{Tensor({keys, 2, 1, problem.kv_heads(), problem.head_dim}, DType::kF32),
                KvLayout::kNHD};
  for (int64_t j = 0; j < keys; ++j) {
    std::copy_n(s.k.row<float>(j), width, pages.data.data<float>() + 2 * j * width);
    std::copy_n(s.v.row<float>(j), width, pages.data.data<float>() + (2 * j + 1) * width);
  }
  std::vector<int32_t> all(static_cast<size_t>(keys));
  std::iota(all.begin(), all.end(), 0);
  reference::paged_attention({s.q, pages, indices({0, static_cast<int32_t>(s.q.dim(0))}),
                              indices({0, static_cast<int32_t>(keys)}), indices(all), indices({1}),
                              problem.heads, problem.head_dim, problem.scale(), s.causal, out,
                              nullptr, problem.bias, problem.soft_cap,
                              s.causal ? problem.window.back : ops::Window::kAll, log_sums});
}

inline void reference_of_rows(const AttentionProblem& problem, const AttentionProblem::Sequence& s,
                              const Tensor& out) {
  const Tensor indptr = indices({0, static_cast<int32_t>(s.q.dim(0))});
  reference::ragged_attention({s.q, s.k, s.v, indptr, problem.heads, problem.head_dim,
                               problem.scale(), out, nullptr, problem.bias, problem.kv_heads(),
                               problem.soft_cap, problem.window});
}

inline bool has_window(const AttentionProblem& problem) {
  return problem.window.back != ops::Window::kAll || problem.window.ahead != ops::Window::kAll;
}

// The reference's results.
inline AttentionResults expected(const AttentionProblem& problem) {
  AttentionResults results;
  for (const auto& s : problem.sequences) {
    results.out.emplace_back(s.q.shape(), DType::kF32);
    if (problem.log_sums)
      results.log_sums.emplace_back(Shape{s.q.dim(0), problem.heads}, DType::kF32);
    if (!s.causal && has_window(problem)) {
      reference_of_rows(problem, s, results.out.back());
    } else {
      reference_of_pages(problem, s, results.out.back(),
                         problem.log_sums ? results.log_sums.back() : Tensor());
    }
  }
  return results;
}

}  // namespace tandem::testing
