// Feed-forward layers over more rows than a piece has: each row has the bits that it has alone.
#include "models/blocks/feed_forward.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/support/random_tensors.h"
#include "tests/support/ranks/rank_threads.h"

namespace tandem {
namespace {

using testing::RandomTensors;

constexpr int64_t kInputs = 8, kHidden = 2048, kMany = 1100;  // 2 x 8 KiB a row: pieces of 1024

RandomTensors layer_tensors() {
  RandomTensors source;
  source.add("fc1.weight", {kHidden, kInputs});
  source.add("gate.weight", {kHidden, kInputs});
  source.add("fc2.weight", {kInputs, kHidden});
  return source;
}

Tensor random_rows() {
  std::mt19937_64 engine(12);
  Tensor x({kMany, kInputs}, DType::kF32);
  for (int64_t i = 0; i < x.size(); ++i)
    x.data<float>()[i] = std::uniform_real_distribution<float>(-1, 1)(engine);
  return x;
}

class FeedForwardTest : public ::testing::TestWithParam<DType> {};

TEST_P(FeedForwardTest, RowsOfAPieceHaveTheBitsThatTheyHaveAlone) {
  RandomTensors source = layer_tensors();
  const Weights w(source, "");
  const Tensor x = random_rows();
  for (const bool gated : {true, false}) {
    FeedForwardOptions o;
    o.width = kHidden;
    o.gated = gated;
    o.bias = Bias::kNone;
    for (const int ranks : {1, 2}) {
      const auto errors = testing::run_ranks(ranks, {}, [&](Communicator& comm) {
        Context ctx(1);
        const Build b{ctx, comm, GetParam()};
        const FeedForward layer(w / "fc1", w / "gate", w / "fc2", b, kInputs, o);
        NormedRows many(x);
        const Tensor all = layer.forward_many(many);
        for (const int64_t row : {int64_t{0}, int64_t{1023}, int64_t{1024}, kMany - 1}) {
          NormedRows one(x.rows(row, row + 1));
          const Tensor alone = layer.forward(one);
          EXPECT_EQ(std::memcmp(all.row<float>(row), alone.raw(), kInputs * sizeof(float)), 0)
              << row << ", gated: " << gated << ", " << ranks << " ranks";
        }
      });
      EXPECT_EQ(errors, std::vector<std::string>(static_cast<size_t>(ranks)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, FeedForwardTest,
                         ::testing::Values(DType::kF32, DType::kBF16, DType::kI8),
                         [](const auto& type) { return std::string(name_of(type.param)); });

}  // namespace
}  // namespace tandem
