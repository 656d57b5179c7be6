// Attention, plain.
#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/box_distance.h"
#include "kernels/kv_pages.h"
#include "kernels/reference.h"

namespace tandem::reference {
namespace {

// What is added to the score of query position i and key position j.
double bias_of(const ops::PositionBias& bias, int head, int64_t i, int64_t j) {
  if (bias.values.empty()) return 0;
  return bias.values.row<float>(
      head)[std::clamp<int64_t>(j - i + bias.zero, 0, bias.values.dim(1) - 1)];
}

// The scale of element `at` of pages.
double page_scale(const KvPages& pages, int64_t at) {
  if (pages.data.dtype() == DType::kI8)
    return double{pages.scales.data<float>()[at / pages.data.dim(4)]};
  if (pages.data.dtype() != DType::kF8E4M3) return 1;
  return std::ldexp(1.0, pages.scales.data<uint8_t>()[at / pages.data.dim(4)] - 127);
}

double capped(double x, float cap) {
  return cap > 0 ? double{cap} * std::tanh(x / double{cap}) : x;
}

// out[d] = sum_j softmax(score(j))_j value(j)[d], over the keys j in [0, keys) that `sees`; key and
// value give element d of key j, score what becomes of q . key(j). Returns the logarithm of the sum
// of exp(score).
template <class Sees, class Key, class Value, class Score>
double attend(const float* q, int64_t keys, int head_dim, const Sees& sees, const Key& key,
              const Value& value, const Score& score, float* out) {
  std::vector<int64_t> seen;
  std::vector<double> p;
  double top = -HUGE_VAL, sum = 0;
  for (int64_t j = 0; j < keys; ++j) {
    if (!sees(j)) continue;
    double s = 0;
    for (int d = 0; d < head_dim; ++d) s += double{q[d]} * key(j, d);
    seen.push_back(j);
    p.push_back(score(j, s));
    top = std::max(top, p.back());
  }
  for (double& s : p) sum += s = std::exp(s - top);
  for (int d = 0; d < head_dim; ++d) {
    double y = 0;
    for (size_t i = 0; i < p.size(); ++i) y += p[i] / sum * value(seen[i], d);
    out[d] = static_cast<float>(y);
  }
  return top + std::log(sum);
}

}  // namespace

void ragged_attention(const ops::RaggedAttentionArgs& args) {
  const int32_t* indptr = args.indptr.data<int32_t>();
  const int group = args.num_kv_heads == 0 ? 1 : args.num_heads / args.num_kv_heads;
  const auto is_global = [&](int64_t s, int64_t row) {
    if (args.global_rows.empty()) return false;
    const int32_t *rows = args.global_rows.data<int32_t>(),
                  *of = args.global_indptr.data<int32_t>();
    return std::find(rows + of[s], rows + of[s + 1], row) != rows + of[s + 1];
  };
  for (int64_t s = 0; s + 1 < args.indptr.dim(0); ++s) {
    const int32_t* range = args.side.ranges.empty() ? nullptr : args.side.ranges.row<int32_t>(s);
    const int32_t* kv = args.kv_ranges.empty() ? indptr + s : args.kv_ranges.row<int32_t>(s);
    // Side keys are numbers [0, aside), then come the sequence's own.
    const int64_t aside = range == nullptr ? 0 : range[1] - range[0];
    for (int64_t t = indptr[s]; t < indptr[s + 1]; ++t)
      for (int head = 0; head < args.num_heads; ++head) {
        const int64_t column = int64_t{head} * args.head_dim, i = t - indptr[s];
        const int64_t unit = args.side.unit == 0 ? 0 : std::min(i / args.side.unit, aside - 1);
        const auto at = [&](const Tensor& side, const Tensor& x) {
          return [&, column = int64_t{head / group} * args.head_dim](int64_t j, int d) {
            return double{j < aside ? side.row<float>(range[0] + j)[column + d]
                                    : x.row<float>(kv[0] + j - aside)[column + d]};
          };
        };
        attend(
            args.q.row<float>(t) + column, aside + kv[1] - kv[0], args.head_dim,
            [&](int64_t j) {
              const int64_t key = j - aside;
              return key < 0 || is_global(s, kv[0] + key) ||
                     ((args.window.back == ops::Window::kAll || i - key <= args.window.back) &&
                      (args.window.ahead == ops::Window::kAll || key - i <= args.window.ahead));
            },
            at(args.side.k, args.k), at(args.side.v, args.v),
            [&](int64_t j, double x) {
              return capped(x * double{args.scale}, args.soft_cap) +
                     (j < aside ? bias_of(args.side.bias, head, unit, j)
                                : bias_of(args.bias, head, i, j - aside));
            },
            args.out.row<float>(t) + column);
      }
  }
}

void paged_attention(const ops::PagedAttentionArgs& args) {
  const KvStrides strides = kv_strides(args.pages);
  const int64_t group = args.num_heads / strides.num_heads;
  const int32_t* qo = args.qo_indptr.data<int32_t>();
  const int32_t* kv = args.kv_indptr.data<int32_t>();
  for (int64_t s = 0; s < args.kv_last_page_len.dim(0); ++s) {
    const int32_t* pages = args.kv_page_indices.data<int32_t>() + kv[s];
    const int64_t queries = qo[s + 1] - qo[s];
    const int64_t keys =
        strides.block_size * (kv[s + 1] - kv[s] - 1) + args.kv_last_page_len.data<int32_t>()[s];
    for (int64_t i = 0; i < queries; ++i)
      for (int head = 0; head < args.num_heads; ++head) {
        const auto at = [&](int which) {
          return [&, which](int64_t j, int d) {
            const int64_t row = pages[j / strides.block_size] * strides.block + which * strides.kv +
                                j % strides.block_size * strides.token +
                                head / group * strides.head;
            return page_scale(args.pages, row) *
                   element(args.pages.data.raw(), args.pages.data.dtype(), row + d);
          };
        };
        const int64_t column = int64_t{head} * args.head_dim, position = keys - queries + i;
        const double log_sum = attend(
            args.q.row<float>(qo[s] + i) + column, args.causal ? position + 1 : keys, args.head_dim,
            [&](int64_t j) {
              return args.window_back == ops::Window::kAll || position - j <= args.window_back;
            },
            at(0), at(1),
            [&](int64_t j, double x) {
              return capped(x * double{args.scale}, args.soft_cap) +
                     bias_of(args.bias, head, position, j);
            },
            args.out.row<float>(qo[s] + i) + column);
        if (!args.log_sums.empty())
          args.log_sums.row<float>(qo[s] + i)[head] = static_cast<float>(log_sum);
      }
  }
}

void merge_attention(const ops::MergeAttentionArgs& args) {
  const int64_t head_dim = args.a.dim(1) / args.a_log_sums.dim(1);
  for (int64_t t = 0; t < args.a.dim(0); ++t)
    for (int64_t i = 0; i < args.a.dim(1); ++i) {
      const double to_b = 1 / (1 + std::exp(double{args.a_log_sums.row<float>(t)[i / head_dim]} -
                                            args.b_log_sums.row<float>(t)[i / head_dim]));
      args.out.row<float>(t)[i] =
          static_cast<float>(args.a.row<float>(t)[i] * (1 - to_b) + args.b.row<float>(t)[i] * to_b);
    }
}

void attention_weights(const ops::AttentionWeightsArgs& args) {
  const KvStrides s = kv_strides(args.pages);
  std::vector<double> weights(static_cast<size_t>(args.keys));
  for (int64_t t = 0; t < args.q.dim(0); ++t) {
    double top = -HUGE_VAL, sum = 0;
    for (int64_t j = 0; j < args.keys && args.kv_head >= 0; ++j) {
      const int64_t row = args.page_indices.data<int32_t>()[j / s.block_size] * s.block +
                          j % s.block_size * s.token + args.kv_head * s.head;
      double score = 0;
      for (int64_t d = 0; d < s.head_dim; ++d)
        score += args.q.row<float>(t)[d] * page_scale(args.pages, row) *
                 element(args.pages.data.raw(), args.pages.data.dtype(), row + d);
      weights[static_cast<size_t>(j)] = score * args.scale;
      top = std::max(top, score * args.scale);
    }
    for (double& weight : weights) sum += weight = std::exp(weight - top);
    for (int64_t j = 0; j < args.out.dim(1); ++j)
      args.out.row<float>(t)[j] =
          static_cast<float>(args.kv_head < 0 ? 0 : weights[static_cast<size_t>(j)] / sum);
  }
}

void box_attention(const ops::BoxAttentionArgs& args) {
  const int32_t* indptr = args.indptr.data<int32_t>();
  for (int64_t s = 0; s + 1 < args.indptr.dim(0); ++s)
    for (int64_t t = indptr[s]; t < indptr[s + 1]; ++t)
      for (int head = 0; head < args.num_heads; ++head) {
        const int64_t column = int64_t{head} * args.head_dim;
        const auto at = [&](const Tensor& x) {
          return [&](int64_t j, int d) { return double{x.row<float>(indptr[s] + j)[column + d]}; };
        };
        const auto score = [&](int64_t j, double x) {
          const float *from = args.boxes.row<float>(t), *to = args.boxes.row<float>(indptr[s] + j);
          return x * double{args.scale} + bias_of(args.bias, head, t - indptr[s], j) +
                 bias_of(args.across, head, 0, box_distance(from, to, 0)) +
                 bias_of(args.down, head, 0, box_distance(from, to, 1));
        };
        attend(
            args.q.row<float>(t) + column, indptr[s + 1] - indptr[s], args.head_dim,
            [](int64_t) { return true; }, at(args.k), at(args.v), score,
            args.out.row<float>(t) + column);
      }
}

void bucket_attention(const ops::BucketAttentionArgs& args) {
  const KvStrides strides = kv_strides(args.pages);
  const int32_t *qo = args.qo_indptr.data<int32_t>(), *kv = args.kv_indptr.data<int32_t>();
  for (int64_t s = 0; s < args.kv_last_page_len.dim(0); ++s) {
    const int32_t* pages = args.kv_page_indices.data<int32_t>() + kv[s];
    const int64_t keys =
        strides.block_size * (kv[s + 1] - kv[s] - 1) + args.kv_last_page_len.data<int32_t>()[s];
    for (int64_t t = qo[s]; t < qo[s + 1]; ++t)
      for (int head = 0; head < args.num_heads; ++head) {
        const int64_t column = int64_t{head} * args.head_dim, position = keys - (qo[s + 1] - t);
        const int64_t seen = std::max<int64_t>(position - args.behind, 0) + 1;
        // The query's own key is number `seen`.
        const auto at = [&](const Tensor& own, int64_t offset) {
          return [&, offset](int64_t j, int d) {
            if (j == seen) return double{own.row<float>(t)[column + d]};
            const int64_t place = pages[j / strides.block_size] * strides.block +
                                  j % strides.block_size * strides.token + head * strides.head +
                                  offset;
            return element(args.pages.data.raw(), args.pages.data.dtype(), place + d) *
                   page_scale(args.pages, place);
          };
        };
        const auto score = [&](int64_t j, double x) {
          const int64_t distance = j == seen ? 0 : position + args.ahead - j;
          const int32_t bucket =
              args.bucket_of
                  .data<int32_t>()[std::clamp<int64_t>(distance, 0, args.bucket_of.dim(0) - 1)];
          return x * double{args.scale} +
                 double{args.biases.row<float>(t)[head * args.buckets + bucket]};
        };
        attend(
            args.q.row<float>(t) + column, seen + (args.own_k.empty() ? 0 : 1), args.head_dim,
            [](int64_t) { return true; }, at(args.own_k, 0), at(args.own_v, strides.kv), score,
            args.out.row<float>(t) + column);
      }
  }
}

}  // namespace tandem::reference
