// Layers on groups of ranks against the same layers on one rank: heads, features and ids that do
// not divide, fewer of them than ranks, weights in every type of a checkpoint.
#include "parallel/layers/layers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/ranks/rank_threads.h"

namespace tandem {
namespace {

constexpr int64_t kRows = 5;

// Tensors of random numbers in memory, by name.
class RandomWeights final : public WeightSource {
 public:
  RandomWeights(DType dtype, uint64_t seed) : dtype_(dtype), rng_(seed) {}
  void add(const std::string& name, const Shape& shape) {
    int64_t count = 1;
    for (int64_t d : shape) count *= d;
    auto bytes =
        std::make_shared<std::vector<std::byte>>(static_cast<size_t>(count) * size_of(dtype_));
    std::uniform_real_distribution<float> uniform(-0.5f, 0.5f);
    for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
      const float x = uniform(rng_);
      if (dtype_ == DType::kF32) {
        std::memcpy(bytes->data() + 4 * i, &x, 4);
      } else {
        // The bits of a bf16, read as f16, are another number and as good; below 2.
        const uint16_t bits = float_to_bf16(x);
        const uint16_t small = dtype_ == DType::kBF16 ? bits : bits & 0xbbff;
        std::memcpy(bytes->data() + 2 * i, &small, 2);
      }
    }
    HostTensor t;
    t.name = name;
    t.file = "memory";
    t.data = bytes->data();
    t.dtype = dtype_;
    t.shape = shape;
    t.bytes = bytes->size();
    t.keep_alive = bytes;
    tensors_[name] = t;
  }
  void add_linear(const std::string& name, int64_t in, int64_t out) {
    add(name + ".weight", {out, in});
    add(name + ".bias", {out});
  }
  const HostTensor* find(const std::string& name) override {
    const auto it = tensors_.find(name);
    return it == tensors_.end() ? nullptr : &it->second;
  }
  std::string location() const override { return "memory"; }

 private:
  DType dtype_;
  std::mt19937_64 rng_;
  std::map<std::string, HostTensor> tensors_;
};

Tensor random_matrix(int64_t rows, int64_t columns, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  Tensor x({rows, columns}, DType::kF32);
  for (int64_t i = 0; i < x.size(); ++i) x.data<float>()[i] = uniform(rng);
  return x;
}

// Up to the rounding of sums that are added in another order.
void expect_close(const Tensor& got, const Tensor& want, double tolerance) {
  ASSERT_EQ(got.shape(), want.shape());
  float largest = 1;
  for (int64_t i = 0; i < want.size(); ++i)
    largest = std::max(largest, std::abs(want.data<float>()[i]));
  for (int64_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got.data<float>()[i], want.data<float>()[i], tolerance * largest) << i;
}

using Forward = std::function<Tensor(const Build&)>;

// What forward() returns on rank 0 of one, on all ranks of every group: close, and bitwise equal
// among the ranks.
void expect_same_on_ranks(const Forward& forward, DType dtype = DType::kF32,
                          double tolerance = 2e-6) {
  Context one(1);
  const auto local = make_local_communicator();
  const Tensor want = forward({one, *local, dtype});
  for (const int ranks : {2, 3, 4, 6}) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    std::vector<Tensor> got(static_cast<size_t>(ranks));
    const auto errors = testing::run_ranks(ranks, {}, [&](Communicator& comm) {
      Context ctx(1);
      got[static_cast<size_t>(comm.rank())] = forward({ctx, comm, dtype});
    });
    for (const auto& e : errors) ASSERT_EQ(e, "");
    for (const Tensor& t : got) {
      expect_close(t, want, tolerance);
      EXPECT_EQ(std::memcmp(t.raw(), got[0].raw(), t.bytes()), 0);
    }
  }
}

class Layers : public ::testing::TestWithParam<DType> {
 protected:
  RandomWeights source_{GetParam(), 17};
  Weights root_{source_};
};

TEST_P(Layers, ColumnThenRow) {
  for (const int64_t inner : {3, 7, 130}) {  // fewer than ranks; odd; more than a panel
    source_.add_linear("fc1", 20, inner);
    source_.add_linear("fc2", inner, 24);
    const Tensor x = random_matrix(kRows, 20, 1);
    expect_same_on_ranks([&](const Build& b) {
      const ColumnParallelLinear first(root_ / "fc1", b, 20, inner, Activation::kGelu);
      const Range part = shard_range(inner, b.comm.rank(), b.comm.size());
      const RowParallelLinear second(root_ / "fc2", b, inner, 24, part);
      return second.forward(first.forward(x));
    });
  }
}

TEST_P(Layers, GatedThenRow) {
  for (const int64_t inner : {3, 7, 130}) {  // fewer than ranks; odd; more than a panel
    source_.add_linear("wi_0", 20, inner);
    source_.add_linear("wi_1", 20, inner);
    source_.add_linear("wo", inner, 24);
    const Tensor x = random_matrix(kRows, 20, 1);
    expect_same_on_ranks([&](const Build& b) {
      const GatedParallelLinear first(root_ / "wi_0", root_ / "wi_1", b, 20, inner,
                                      Activation::kGeluTanh, Bias::kNone);
      const Range part = shard_range(inner, b.comm.rank(), b.comm.size());
      const RowParallelLinear second(root_ / "wo", b, inner, 24, part, Bias::kNone);
      return second.forward(first.forward(x));
    });
  }
}

// One product of both, then the gate: as two layers and a product of elements.
TEST_P(Layers, GateTimesTheOther) {
  source_.add_linear("wi_0", 20, 33);
  source_.add_linear("wi_1", 20, 33);
  Context ctx(1);
  const auto comm = make_local_communicator();
  const Build b{ctx, *comm, DType::kF32};
  const Tensor x = random_matrix(kRows, 20, 1);
  const GatedParallelLinear both(root_ / "wi_0", root_ / "wi_1", b, 20, 33, Activation::kSilu);
  const ColumnParallelLinear gate(root_ / "wi_0", b, 20, 33, Activation::kSilu);
  const ColumnParallelLinear up(root_ / "wi_1", b, 20, 33);
  const Tensor got = both.forward(x), g = gate.forward(x), u = up.forward(x);
  for (int64_t i = 0; i < kRows; ++i)
    for (int64_t j = 0; j < 33; ++j)
      EXPECT_EQ(got.row<float>(i)[j], g.row<float>(i)[j] * u.row<float>(i)[j]);
}

// An RMS norm needs no bias in the file, and is not an embedding's own.
TEST_P(Layers, RmsNorm) {
  source_.add("norm.weight", {16});
  source_.add("embed.weight", {5, 16});
  const HostTensor tokens = (root_ / "embed").get("weight", {5, 16});
  const std::vector<int32_t> ids = {0, 4, 2};
  expect_same_on_ranks([&](const Build& b) {
    const Norm norm(root_ / "norm", b, 16, 1e-6f, NormKind::kRms);
    const VocabParallelEmbedding embedding(tokens, b, 1.0f);
    const auto embed = [&](const Norm* n) {
      return embedding.forward(Tensor::borrow(ids), {}, {}, 0, n);
    };
    const Tensor normed = embed(&norm), x = embed(nullptr);
    EXPECT_EQ(std::memcmp(normed.raw(), norm.forward(x).raw(), normed.bytes()), 0);
    const auto [sum, next] = norm.sum_and_norm(normed, embed(nullptr));
    const Tensor added = norm.add_norm(normed, embed(nullptr));
    EXPECT_EQ(std::memcmp(next.raw(), added.raw(), next.bytes()), 0);
    return sum;
  });
}

// int8 and int4: what shards its outputs gives the bits of one rank; what shards its inputs has
// other scales (and groups).
TEST_P(Layers, ColumnThenRowInIntegers) {
  source_.add_linear("fc1", 20, 130);
  source_.add_linear("fc2", 130, 24);
  const Tensor x = random_matrix(kRows, 20, 1), wide = random_matrix(kRows, 130, 2);
  const auto column = [&](const Build& b) {
    const ColumnParallelLinear layer(root_ / "fc1", b, 20, 130, Activation::kGelu);
    const Range part = shard_range(130, b.comm.rank(), b.comm.size());
    Tensor all = Tensor::zeros({kRows, 130}, DType::kF32);
    const Tensor y = layer.forward(x);
    for (int64_t i = 0; i < kRows; ++i)
      std::memcpy(all.row<float>(i) + part.begin, y.row<float>(i),
                  static_cast<size_t>(part.size()) * sizeof(float));
    b.comm.all_reduce(all);
    return all;
  };
  const auto row = [&](const Build& b) {
    const Range part = shard_range(130, b.comm.rank(), b.comm.size());
    const RowParallelLinear layer(root_ / "fc2", b, 130, 24, part);
    return layer.forward(wide.columns(part.begin, part.end));
  };
  for (const DType type : {DType::kI8, DType::kI4}) {
    expect_same_on_ranks(column, type, 0);
    expect_same_on_ranks(row, type, type == DType::kI8 ? 0.03 : 0.6);
  }
}

// The heads' outputs, summed through an output projection, as attention does.
TEST_P(Layers, HeadsOfSelfAndCrossAttention) {
  for (const int heads : {1, 3, 6}) {
    const int dim = 4;
    const int64_t width = int64_t{heads} * dim;
    for (const char* name : {"q", "k", "v"}) source_.add_linear(name, 24, width);
    source_.add_linear("out", width, 24);
    const Tensor x = random_matrix(kRows, 24, 2), y = random_matrix(kRows, 24, 3);
    const auto product = [](const Tensor& a, const Tensor& b, const Tensor& c) {
      Tensor out({a.dim(0), a.dim(1)}, DType::kF32);
      for (int64_t i = 0; i < a.dim(0); ++i)
        for (int64_t k = 0; k < a.dim(1); ++k)
          out.row<float>(i)[k] = a.row<float>(i)[k] * b.row<float>(i)[k] + c.row<float>(i)[k];
      return out;
    };
    expect_same_on_ranks([&](const Build& b) {
      const QKVParallelLinear self(root_ / "q", root_ / "k", root_ / "v", b, 24, heads, dim);
      const CrossAttentionQKVParallelLinear cross(root_ / "q", root_ / "k", root_ / "v", b, 24,
                                                  heads, dim);
      const Range part = shard_range(heads, b.comm.rank(), b.comm.size()) * dim;
      const RowParallelLinear out(root_ / "out", b, width, 24, part);
      const auto [q, k, v] = self.forward(x);
      const auto [cross_k, cross_v] = cross.forward_kv(y);
      return out.forward(
          product(product(q, k, v), cross.forward_q(x), product(cross_k, q, cross_v)));
    });
  }
}

// Norms of heads do to each head what a norm does to a row.
TEST_P(Layers, NormOfGroupsWithOneMore) {
  source_.add("norm.weight", {6});
  Context ctx(1);
  const auto comm = make_local_communicator();
  const Build b{ctx, *comm, DType::kF32};
  const Norm plain(root_ / "norm", b, 6, 1e-6f, NormKind::kRms);
  const Norm one_more(root_ / "norm", b, 6, 1e-6f, NormKind::kRmsPlusOne);
  const Tensor x = random_matrix(kRows, 18, 4), heads = random_matrix(3 * kRows, 6, 4);
  one_more.norm_groups(x);
  const Tensor normed = plain.forward(heads);
  for (int64_t i = 0; i < normed.size(); ++i) {
    const float w = plain.weight().data<float>()[i % 6];
    const double want = double{normed.data<float>()[i]} * (1.0 + double{w}) / double{w};
    EXPECT_NEAR(x.data<float>()[i], want, 1e-5 * std::max(1.0, std::abs(want))) << i;
  }
}

TEST_P(Layers, SoftCapOfLogits) {
  source_.add("head.weight", {11, 16});
  const HostTensor weight = (root_ / "head").get("weight", {11, 16});
  const Tensor x = random_matrix(kRows, 16, 5);
  Context ctx(1);
  const auto comm = make_local_communicator();
  const Build b{ctx, *comm, DType::kF32};
  const Tensor logits = ParallelLMHead(weight, {}, b).forward(x);
  const Tensor capped = ParallelLMHead(weight, {}, b, 1.0f, 0.5f).forward(x);
  for (int64_t i = 0; i < logits.size(); ++i)
    EXPECT_NEAR(capped.data<float>()[i], 0.5 * std::tanh(2.0 * logits.data<float>()[i]), 1e-6);
  expect_same_on_ranks(
      [&](const Build& build) { return ParallelLMHead(weight, {}, build, 1.0f, 0.5f).forward(x); });
}

TEST_P(Layers, EmbeddingAndHeadOfAVocabularyThatDoesNotDivide) {
  for (const int64_t vocabulary : {2, 5, 101}) {
    source_.add("embed.weight", {vocabulary, 16});
    source_.add("positions.weight", {12, 16});
    const HostTensor tokens = (root_ / "embed").get("weight", {vocabulary, 16});
    const Tensor positions =
        to_float((root_ / "positions").get("weight", {12, 16})).reshape({12, 16});
    Tensor bias({vocabulary}, DType::kF32);
    for (int64_t i = 0; i < vocabulary; ++i) bias.data<float>()[i] = 0.01f * static_cast<float>(i);
    std::vector<int32_t> ids, places;
    for (int32_t i = 0; i < kRows; ++i) {
      ids.push_back(static_cast<int32_t>((i * 37 + 1) % vocabulary));
      places.push_back(i);
    }
    expect_same_on_ranks([&](const Build& b) {
      const VocabParallelEmbedding embedding(tokens, b, 2.0f);
      const ParallelLMHead head(tokens, bias, b, 0.25f);
      const Tensor x = embedding.forward(Tensor::borrow(ids), Tensor::borrow(places), positions, 2);
      EXPECT_EQ(head.forward_shard(x).dim(1),
                shard_range(vocabulary, b.comm.rank(), b.comm.size()).size());
      return head.forward(x);
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Layers, ::testing::Values(DType::kF32, DType::kF16, DType::kBF16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

}  // namespace
}  // namespace tandem
