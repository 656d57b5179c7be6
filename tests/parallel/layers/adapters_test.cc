// Adapters in layers: the sums against plain ones, whoever shares the batch, on every number of
// ranks.
#include "parallel/layers/adapters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "parallel/layers/layers.h"
#include "tests/support/adapters/plain_adapters.h"
#include "tests/support/ranks/rank_threads.h"

namespace tandem {
namespace {

using namespace testing::adapted;  // NOLINT: all of it is of this test

const std::vector<uint64_t> kOfRows = {0, 2, 1, 1, 0, 2, 3, 1};  // 3 changes nothing here

class AdaptedLayers : public ::testing::Test {
 protected:
  AdaptedLayers() {
    weights_.add("fc.weight", {kOut, kIn}, 1);
    weights_.add("fc.bias", {kOut}, 2);
  }
  // Adapter 1 has low rank, 2 `second`.
  void load(AdapterSet& set, const std::string& module, const ModuleChange& second) {
    PlainChanges one, two, three;
    one.modules[module] = low_rank(kIn, kOut, 10);
    two.modules[module] = second;
    set.load(1, one);
    set.load(2, two);
    set.load(3, three);
  }
  using Forward = std::function<Tensor(const Build&, const Tensor& x, AdapterSet& set)>;
  void expect_merged(const Forward& forward, const ModuleChange& second,
                     const std::function<double(double)>& activation = nullptr) {
    const Tensor x = random_rows(std::ssize(kOfRows), kIn);
    const ModuleChange first = low_rank(kIn, kOut, 10);
    for (const int ranks : {1, 2, 3}) {
      const auto errors = testing::run_ranks(ranks, {}, [&](Communicator& comm) {
        Context ctx(1);
        AdapterSet set;
        Build build{ctx, comm, DType::kF32};
        build.adapters = &set;
        const Tensor y = forward(build, x, set);
        for (int64_t row = 0; row < x.dim(0); ++row) {
          const uint64_t id = kOfRows[static_cast<size_t>(row)];
          const auto want = merged_row(*weights_.find("fc.weight"), *weights_.find("fc.bias"),
                                       id == 1   ? &first
                                       : id == 2 ? &second
                                                 : nullptr,
                                       x.row<float>(row));
          for (int64_t n = 0; n < y.dim(1); ++n) {
            const double value = want[static_cast<size_t>(n + first_column_)];
            ASSERT_NEAR(y.row<float>(row)[n], activation ? activation(value) : value, 5e-6)
                << ranks << " ranks, row " << row << ", feature " << n;
          }
        }
      });
      for (const auto& e : errors) ASSERT_EQ(e, "");
    }
  }
  Forward column(Activation activation) {
    return [=, this](const Build& b, const Tensor& x, AdapterSet& set) {
      const ColumnParallelLinear fc(Weights(weights_) / "fc", b, kIn, kOut, activation);
      load(set, "fc", second_);
      first_column_ = shard_range(kOut, b.comm.rank(), b.comm.size()).begin;
      const AdapterSet::Scope rows(&set, AdapterRows(kOfRows));
      return fc.forward(x);
    };
  }
  Forward row() {
    return [this](const Build& b, const Tensor& x, AdapterSet& set) {
      const Range part = shard_range(kIn, b.comm.rank(), b.comm.size());
      const RowParallelLinear fc(Weights(weights_) / "fc", b, kIn, kOut, part);
      load(set, "fc", second_);
      first_column_ = 0;
      const AdapterSet::Scope rows(&set, AdapterRows(kOfRows));
      return fc.forward(x.columns(part.begin, part.end));
    };
  }

  BaseWeights weights_;
  ModuleChange second_ = low_rank(kIn, kOut, 20);
  static thread_local int64_t first_column_;  // of this rank's result
};
thread_local int64_t AdaptedLayers::first_column_ = 0;

TEST_F(AdaptedLayers, LowRank) {
  expect_merged(column(Activation::kNone), second_);
  expect_merged(row(), second_);
}

TEST_F(AdaptedLayers, BeforeTheActivation) {
  expect_merged(column(Activation::kRelu), second_, [](double v) { return std::max(v, 0.0); });
  expect_merged(column(Activation::kTanh), second_, [](double v) { return std::tanh(v); });
}

TEST_F(AdaptedLayers, NormsOfRows) {
  second_ = low_rank(kIn, kOut, 30, /*dora=*/true);
  expect_merged(column(Activation::kNone), second_);
  expect_merged(row(), second_);
}

TEST_F(AdaptedLayers, WholeWeights) {
  second_ = {};
  second_.weight = random_tensor("fc.weight", {kOut, kIn}, 40);
  expect_merged(column(Activation::kNone), second_);
  expect_merged(row(), second_);
}

TEST_F(AdaptedLayers, TrainedBiases) {
  for (const bool dora : {false, true}) {
    second_ = low_rank(kIn, kOut, 20, dora);
    second_.bias = random_tensor("bias", {kOut}, 41);
    expect_merged(column(Activation::kNone), second_);
    expect_merged(row(), second_);
  }
  second_ = {};
  second_.bias = random_tensor("bias", {kOut}, 42);
  expect_merged(column(Activation::kTanh), second_, [](double v) { return std::tanh(v); });
  expect_merged(row(), second_);
}

// Bit for bit: rows of the base as without adapters, rows of an adapter as alone.
TEST_F(AdaptedLayers, ARowDoesNotDependOnTheOthers) {
  const Tensor x = random_rows(std::ssize(kOfRows), kIn);
  const auto comm = make_local_communicator();
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI8}) {
    Context ctx(2);
    AdapterSet set;
    Build build{ctx, *comm, dtype}, plain{ctx, *comm, dtype};
    build.adapters = &set;
    const Weights w = Weights(weights_) / "fc";
    const ColumnParallelLinear fc(w, build, kIn, kOut, Activation::kGelu);
    const ColumnParallelLinear base(w, plain, kIn, kOut, Activation::kGelu);
    load(set, "fc", low_rank(kIn, kOut, 30, /*dora=*/true));
    const Tensor without = base.forward(x);
    const auto run = [&](const Tensor& rows, std::vector<uint64_t> of_rows) {
      const AdapterSet::Scope scope(&set, AdapterRows(std::move(of_rows)));
      return fc.forward(rows);
    };
    const Tensor together = run(x, kOfRows);
    for (int64_t row = 0; row < x.dim(0); ++row) {
      const uint64_t id = kOfRows[static_cast<size_t>(row)];
      const Tensor alone = run(x.rows(row, row + 1), {id});
      const size_t bytes = kOut * sizeof(float);
      EXPECT_EQ(std::memcmp(together.row<float>(row), alone.raw(), bytes), 0) << row;
      const bool as_base =
          std::memcmp(together.row<float>(row), without.row<float>(row), bytes) == 0;
      EXPECT_EQ(as_base, id == 0 || id == 3) << row;
    }
    set.drop(1);
    set.drop(2);
    const Tensor dropped = run(x, kOfRows);
    EXPECT_EQ(std::memcmp(dropped.raw(), without.raw(), without.bytes()), 0);
  }
}

TEST(AdaptedTables, RowsGainWhatTheAdapterSays) {
  BaseWeights weights;
  weights.add("t.weight", {kIds, kOut}, 1);
  ModuleChange low = low_rank(kIds, kOut, 5), whole;
  whole.weight = random_tensor("t.weight", {kIds, kOut}, 7);
  const std::vector<int32_t> ids = {3, 10, 0, 5}, positions = {0, 1, 2, 3};
  const std::vector<uint64_t> of_rows = {1, 2, 0, 1};
  const Tensor table = random_rows(4, kOut);
  constexpr float kScale = 3.0f;
  for (const int ranks : {1, 2, 3}) {
    const auto errors = testing::run_ranks(ranks, {}, [&](Communicator& comm) {
      Context ctx(1);
      AdapterSet set;
      Build build{ctx, comm, DType::kF32};
      build.adapters = &set;
      VocabParallelEmbedding layer(*weights.find("t.weight"), build, kScale);
      layer.adapt("t");
      PlainChanges one, two;
      one.modules["t"] = low;
      two.modules["t"] = whole;
      set.load(1, one);
      set.load(2, two);
      const AdapterSet::Scope rows(&set, AdapterRows(of_rows));
      const Tensor y =
          layer.forward(Tensor::borrow(ids), Tensor::borrow(positions), table, /*offset=*/0);
      for (size_t row = 0; row < ids.size(); ++row)
        for (int64_t n = 0; n < kOut; ++n) {
          const HostTensor& from = of_rows[row] == 2 ? *whole.weight : *weights.find("t.weight");
          double want = at(from, ids[row] * kOut + n);
          for (int64_t j = 0; of_rows[row] == 1 && j < kRank; ++j)
            want += double{kScaling} * at(*low.b, n * kRank + j) * at(*low.a, j * kIds + ids[row]);
          want = kScale * want + table.row<float>(static_cast<int64_t>(row))[n];
          ASSERT_NEAR(y.row<float>(static_cast<int64_t>(row))[n], want, 5e-6) << row << " " << n;
        }
    });
    for (const auto& e : errors) ASSERT_EQ(e, "");
  }
}

TEST(AdapterRows, GroupsPartsAndChoices) {
  const AdapterRows rows({0, 7, 7, 0, 5, 7});
  ASSERT_EQ(rows.groups().size(), 2u);
  EXPECT_EQ(rows.groups()[0].adapter, 5u);
  EXPECT_EQ(rows.groups()[1].rows, (std::vector<int32_t>{1, 2, 5}));
  EXPECT_FALSE(rows.groups()[1].adjacent());
  const AdapterRows part = rows.part(1, 3);
  EXPECT_EQ(part.size(), 2);
  EXPECT_TRUE(part.groups()[0].adjacent());
  const std::vector<int32_t> chosen = {5, 0, 4};
  EXPECT_EQ(rows.chosen(chosen).of_row(0), 7u);
  EXPECT_TRUE(AdapterRows({0, 0}).empty());
  EXPECT_TRUE(rows.part(0, 1).empty());
}

}  // namespace
}  // namespace tandem
