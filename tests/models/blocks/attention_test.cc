// Attention layers against the plain sums in doubles: fewer heads of keys than of queries, norms of
// heads, rotary positions, windows, soft caps, and one softmax over the keys of two sides; on one
// rank and on more ranks than there are heads of keys, a decoder's tokens in two chunks.
#include "models/blocks/attention/attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/kernels_test_util.h"
#include "tests/support/ranks/rank_threads.h"

namespace tandem {
namespace {

using Rows = std::vector<std::vector<double>>;

constexpr int kWidth = 20, kEncoderWidth = 12, kHeads = 4, kKvHeads = 2, kHeadDim = 6;
constexpr int kTokens = 9, kChunk = 4, kEncoderTokens = 7, kBlockSize = 4;
constexpr float kTheta = 50.0f;
constexpr double kEps = 1e-6;

class RandomWeights final : public WeightSource {
 public:
  RandomWeights(int64_t d_model, int64_t kv_width) {
    const int64_t q = kHeads * kHeadDim, kv = kKvHeads * kHeadDim;
    add("q_proj.weight", {q, d_model});
    add("k_proj.weight", {kv, kv_width});
    add("v_proj.weight", {kv, kv_width});
    add("out_proj.weight", {d_model, q});
    add("q_norm.weight", {kHeadDim});
    add("k_norm.weight", {kHeadDim});
  }
  const HostTensor* find(const std::string& name) override {
    const auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : &it->second;
  }
  std::string location() const override { return "memory"; }

 private:
  void add(const std::string& name, const Shape& shape) {
    const auto values = std::make_shared<Tensor>(shape, DType::kF32);
    for (int64_t i = 0; i < values->size(); ++i)
      values->data<float>()[i] = std::uniform_real_distribution<float>(-0.6f, 0.6f)(engine_);
    HostTensor& t = tensors_[name];
    t.name = name;
    t.data = static_cast<const std::byte*>(values->raw());
    t.shape = shape;
    t.bytes = values->bytes();
    t.keep_alive = values;
  }

  std::mt19937_64 engine_{7};
  std::map<std::string, HostTensor> tensors_;
};

Rows rows_of(const Tensor& t) {
  Rows out;
  for (int64_t i = 0; i < t.dim(0); ++i)
    out.emplace_back(t.row<float>(i), t.row<float>(i) + t.dim(1));
  return out;
}

// The same layer, sum by sum.
class Plain {
 public:
  Plain(RandomWeights& weights, const AttentionOptions& o) : weights_(weights), o_(o) {}

  Rows queries(const Rows& x, bool turn) const { return heads(x, "q_proj", o_.names.q_norm, turn); }
  Rows keys(const Rows& x, bool turn) const { return heads(x, "k_proj", o_.names.k_norm, turn); }
  Rows values(const Rows& x) const { return linear(x, "v_proj"); }
  // All queries over both sets of keys; those of `self` are in the window.
  Rows attend(const Rows& q, const Rows& self_k, const Rows& self_v, const Rows& cross_k,
              const Rows& cross_v) const {
    Rows out(q.size(), std::vector<double>(q[0].size(), 0.0));
    for (size_t i = 0; i < q.size(); ++i)
      for (int h = 0; h < kHeads; ++h) {
        std::vector<std::pair<double, const double*>> seen;  // exp(score), value
        const size_t at = static_cast<size_t>(h) * kHeadDim;
        const size_t kv = static_cast<size_t>(h / (kHeads / kKvHeads)) * kHeadDim;
        const auto see = [&](const Rows& k, const Rows& v, size_t j) {
          double score = 0;
          for (size_t d = 0; d < kHeadDim; ++d) score += q[i][at + d] * k[j][kv + d];
          score *= o_.scale;
          if (o_.soft_cap > 0) score = o_.soft_cap * std::tanh(score / o_.soft_cap);
          seen.emplace_back(std::exp(score), &v[j][kv]);
        };
        for (size_t j = 0; j < self_k.size(); ++j)
          if (is_seen(static_cast<int>(j) - static_cast<int>(i))) see(self_k, self_v, j);
        for (size_t j = 0; j < cross_k.size(); ++j) see(cross_k, cross_v, j);
        double sum = 0;
        for (const auto& [weight, value] : seen) sum += weight;
        for (const auto& [weight, value] : seen)
          for (size_t d = 0; d < kHeadDim; ++d) out[i][at + d] += weight / sum * value[d];
      }
    return linear(out, "out_proj");
  }

 private:
  bool is_seen(int distance) const {
    const auto within = [](int size, int32_t limit) {
      return limit == ops::Window::kAll || size <= limit;
    };
    return distance < 0 ? within(-distance, o_.window.back) : within(distance, o_.window.ahead);
  }
  Rows linear(const Rows& x, const std::string& name) const {
    const HostTensor& w = *weights_.find(name + ".weight");
    const auto* values = reinterpret_cast<const float*>(w.data);
    Rows out;
    for (const auto& row : x) {
      auto& y = out.emplace_back(static_cast<size_t>(w.shape[0]), 0.0);
      for (size_t n = 0; n < y.size(); ++n)
        for (size_t k = 0; k < row.size(); ++k) y[n] += double{values[n * row.size() + k]} * row[k];
    }
    return out;
  }
  Rows heads(const Rows& x, const char* projection, const char* norm, bool turn) const {
    Rows out = linear(x, projection);
    for (size_t i = 0; i < out.size(); ++i)
      for (size_t at = 0; at < out[i].size(); at += kHeadDim) {
        double* head = &out[i][at];
        if (norm != nullptr) norm_head(head, norm);
        if (turn && o_.rotary) turn_head(head, static_cast<double>(i));
      }
    return out;
  }
  void norm_head(double* head, const std::string& name) const {
    double squares = 0;
    for (int d = 0; d < kHeadDim; ++d) squares += head[d] * head[d];
    const auto* w = reinterpret_cast<const float*>(weights_.find(name + ".weight")->data);
    for (int d = 0; d < kHeadDim; ++d)
      head[d] *= (1.0 + double{w[d]}) / std::sqrt(squares / kHeadDim + kEps);
  }
  static void turn_head(double* head, double position) {
    constexpr int kHalf = kHeadDim / 2;
    for (int d = 0; d < kHalf; ++d) {
      const double angle = position * std::pow(double{kTheta}, -2.0 * d / kHeadDim);
      const double a = head[d], b = head[d + kHalf];
      head[d] = a * std::cos(angle) - b * std::sin(angle);
      head[d + kHalf] = b * std::cos(angle) + a * std::sin(angle);
    }
  }

  RandomWeights& weights_;
  AttentionOptions o_;
};

AttentionOptions options(bool norms) {
  AttentionOptions o = AttentionOptions::scaled(kHeads, kHeadDim);
  o.kv_heads = kKvHeads;
  o.bias = Bias::kNone;
  o.eps = static_cast<float>(kEps);
  o.head_norms = NormKind::kRmsPlusOne;
  if (norms) o.names.q_norm = "q_norm";
  if (norms) o.names.k_norm = "k_norm";
  return o;
}

PageTable pages(int first, int keys) {
  PageTable out;
  const int blocks = (keys + kBlockSize - 1) / kBlockSize;
  for (int i = 0; i < blocks; ++i) out.page_indices.push_back(first + i);
  out.indptr.push_back(blocks);
  out.last_page_len = {keys - kBlockSize * (blocks - 1)};
  return out;
}

// Tokens [begin, end) of one sequence, whose blocks begin at 1; the encoder's begin at 8.
ModelInput decoder_input(int begin, int end) {
  ModelInput in;
  AttentionMetadata& m = in.attention;
  for (int t = begin; t < end; ++t) {
    in.input_ids.push_back(0);
    in.positions.push_back(t);
    m.slot_mapping.push_back(kBlockSize + t);
  }
  m.query_start_loc.push_back(end - begin);
  m.cross_query_start_loc.push_back(end - begin);
  m.self_pages = pages(1, end);
  m.cross_pages = pages(8, kEncoderTokens);
  return in;
}

ModelInput encoder_input(int tokens) {
  ModelInput in;
  for (int t = 0; t < tokens; ++t) {
    in.encoder_positions.push_back(t);
    in.attention.cross_slot_mapping.push_back(8 * kBlockSize + t);
  }
  in.attention.encoder_start_loc.push_back(tokens);
  return in;
}

// forward() on each rank of 1, 2, 3 and 4.
template <class Forward>
void expect_on_ranks(const Rows& want, const Forward& forward) {
  const Tensor expected({std::ssize(want), std::ssize(want[0])}, DType::kF32);
  for (int64_t i = 0; i < expected.dim(0); ++i)
    std::copy(want[static_cast<size_t>(i)].begin(), want[static_cast<size_t>(i)].end(),
              expected.row<float>(i));
  for (const int ranks : {1, 2, 3, 4}) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    std::vector<Tensor> got(static_cast<size_t>(ranks));
    const auto errors = testing::run_ranks(ranks, {}, [&](Communicator& comm) {
      Context ctx(1);
      got[static_cast<size_t>(comm.rank())] = forward(Build{ctx, comm, DType::kF32});
    });
    for (const auto& e : errors) ASSERT_EQ(e, "");
    for (const Tensor& t : got) EXPECT_TRUE(testing::near(t, expected, 2e-5, 2e-5));
  }
}

Tensor angles_of(const Build& b, const std::vector<int32_t>& positions) {
  const Tensor out = b.ctx.make({std::ssize(positions), kHeadDim}, DType::kF32);
  ops::rotary_angles(b.ctx, {Tensor::borrow(positions), rotary_frequencies(kHeadDim, kTheta), out});
  return out;
}

// A decoder's layer over two chunks of tokens; `layer` runs one.
template <class Layer>
Tensor in_chunks(const Build& b, const Tensor& x, const Layer& layer) {
  const Tensor out({x.dim(0), x.dim(1)}, DType::kF32);
  for (const auto& [begin, end] : {std::pair{0, kChunk}, {kChunk, kTokens}}) {
    const ModelInput input = decoder_input(begin, end);
    StepTensors in(input);
    in.angles = {angles_of(b, input.positions)};
    const Tensor y = layer(x.rows(begin, end), in);
    for (int64_t i = 0; i < y.dim(0); ++i)
      std::copy(y.row<float>(i), y.row<float>(i) + y.dim(1), out.row<float>(begin + i));
  }
  return out;
}

KvPages new_pages(const Build& b) {
  const Heads heads(b, kHeads, kHeadDim, kKvHeads);
  return {Tensor::zeros({12, 2, heads.kv_count(), kBlockSize, kHeadDim}, DType::kF32)};
}

// The same behind the states of an encoder.
template <class Layer>
Tensor in_chunks_behind(const Build& b, const Tensor& states, const Tensor& x, const Layer& layer) {
  const KvPages kv = new_pages(b);
  const ModelInput input = encoder_input(kEncoderTokens);
  layer.write_kv(states, StepTensors(input), kv);
  return in_chunks(b, x, [&](const Tensor& chunk, const StepTensors& in) {
    NormedRows rows(chunk);
    return layer.forward(rows, in, kv);
  });
}

Rows attend_self(const Plain& plain, const Rows& rows) {
  return plain.attend(plain.queries(rows, true), plain.keys(rows, true), plain.values(rows), {},
                      {});
}

TEST(Attention, EncoderWithAWindowThatIsWiderAhead) {
  testing::Random random;
  const Tensor x = random.matrix(kTokens, kWidth);
  RandomWeights source(kWidth, kWidth);
  for (const bool norms : {false, true}) {
    AttentionOptions o = options(norms);
    o.rotary = 0;
    o.window = {2, 3};
    o.soft_cap = 0.7f;
    const Plain plain(source, o);
    const Rows rows = rows_of(x);
    const Rows want = attend_self(plain, rows);
    expect_on_ranks(want, [&](const Build& b) {
      const EncoderAttention layer(Weights(source), b, kWidth, o);
      const ModelInput input = encoder_input(kTokens);
      StepTensors in(input);
      in.encoder_angles = {angles_of(b, input.encoder_positions)};
      NormedRows rows_of_x(x);
      return layer.forward(rows_of_x, in);
    });
  }
}

TEST(Attention, DecoderLooksBackAsFarAsItsWindow) {
  testing::Random random;
  const Tensor x = random.matrix(kTokens, kWidth);
  RandomWeights source(kWidth, kWidth);
  AttentionOptions o = options(false);
  o.rotary = 0;
  o.window = {3, 0};
  o.soft_cap = 0.7f;
  const Plain plain(source, o);
  const Rows rows = rows_of(x);
  const Rows want = attend_self(plain, rows);
  expect_on_ranks(want, [&](const Build& b) {
    const DecoderSelfAttention layer(Weights(source), b, kWidth, o);
    const KvPages kv = new_pages(b);
    return in_chunks(b, x, [&](const Tensor& chunk, const StepTensors& in) {
      NormedRows rows_of_chunk(chunk);
      return layer.forward(rows_of_chunk, in, kv);
    });
  });
}

TEST(Attention, CrossAttentionToStatesOfAnotherWidth) {
  testing::Random random;
  const Tensor x = random.matrix(kTokens, kWidth);
  const Tensor states = random.matrix(kEncoderTokens, kEncoderWidth);
  RandomWeights source(kWidth, kEncoderWidth);
  AttentionOptions o = options(false);
  o.kv_width = kEncoderWidth;
  o.soft_cap = 0.7f;
  const Plain plain(source, o);
  const Rows encoder = rows_of(states);
  const Rows want = plain.attend(plain.queries(rows_of(x), false), {}, {},
                                 plain.keys(encoder, false), plain.values(encoder));
  expect_on_ranks(want, [&](const Build& b) {
    const CrossAttention layer(Weights(source), b, kWidth, o);
    return in_chunks_behind(b, states, x, layer);
  });
}

// Keys of the encoder's states are normed as others are, but do not turn and have no window.
TEST(Attention, OneSoftmaxOverBothSides) {
  testing::Random random;
  const Tensor x = random.matrix(kTokens, kWidth);
  const Tensor states = random.matrix(kEncoderTokens, kWidth);
  RandomWeights source(kWidth, kWidth);
  AttentionOptions o = options(true);
  o.rotary = 0;
  o.window = {2, 0};
  const Plain plain(source, o);
  const Rows rows = rows_of(x), encoder = rows_of(states);
  const Rows want =
      plain.attend(plain.queries(rows, true), plain.keys(rows, true), plain.values(rows),
                   plain.keys(encoder, false), plain.values(encoder));
  expect_on_ranks(want, [&](const Build& b) {
    const MergedAttention layer(Weights(source), b, kWidth, o);
    return in_chunks_behind(b, states, x, layer);
  });
}

}  // namespace
}  // namespace tandem
