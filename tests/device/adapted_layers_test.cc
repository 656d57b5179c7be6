// Adapters in layers on devices (the emulator): the CPU's plain sums, in every type of a device, of
// rows that are adjacent and of rows that are not, on every number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/core/plugin.h"
#include "parallel/layers/layers.h"
#include "tests/support/adapters/plain_adapters.h"
#include "tests/support/ranks/device_ranks.h"

namespace tandem::device_adapters_test {
namespace {

using namespace testing::adapted;  // NOLINT: all of it is of this test

// 3 changes nothing in the layer.
const std::vector<std::vector<uint64_t>> kRowsOfSteps = {
    {0, 2, 1, 1, 0, 2, 3, 1}, {1, 1, 1, 0, 0, 2, 2, 2}, {2, 2, 2, 2, 2, 2, 2, 2}};
constexpr int64_t kRows = 8;

Tensor to_device(Context& ctx, const Tensor& host) {
  const Tensor there = ctx.backend().allocate(host.shape(), host.dtype());
  ctx.backend().copy_in(host, there);
  return there;
}

// Values of the activations' type.
Tensor activations(Context& ctx, const Tensor& floats) {
  return ctx.resident_bias(floats, ctx.activations());
}

std::vector<float> to_host(Context& ctx, const Tensor& t) {
  const Tensor here = ctx.on_host(t);
  std::vector<float> out;
  for (int64_t i = 0; i < here.size(); ++i) {
    if (here.dtype() == DType::kF32) {
      out.push_back(here.data<float>()[i]);
      continue;
    }
    const uint16_t bits = static_cast<const uint16_t*>(here.raw())[i];
    out.push_back(here.dtype() == DType::kF16 ? f16_to_float(bits) : bf16_to_float(bits));
  }
  return out;
}

struct Kind {
  const char* name;
  DType dtype;
  int ranks;
  float tolerance;  // of sums of a few values near 1
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class AdaptedDeviceLayers : public ::testing::TestWithParam<Kind> {
 protected:
  AdaptedDeviceLayers() {
    weights_.add("fc.weight", {kOut, kIn}, 1);
    weights_.add("fc.bias", {kOut}, 2);
  }

  using Layer = std::function<Tensor(const Tensor& x)>;
  struct Made {
    Layer forward;
    Range columns;  // of the result, on this rank
  };
  using MakeLayer = std::function<Made(const Build&)>;

  // Adapter 1 has low rank, 2 `second`.
  void load(AdapterSet& set, const ModuleChange& second) {
    PlainChanges one, two, three;
    one.modules["fc"] = low_rank(kIn, kOut, 10);
    two.modules["fc"] = second;
    set.load(1, one);
    set.load(2, two);
    set.load(3, three);
  }
  void expect_merged(const MakeLayer& make, const ModuleChange& second,
                     const std::function<double(double)>& activation = nullptr) {
    const Kind& kind = GetParam();
    const ModuleChange first = low_rank(kIn, kOut, 10);
    const testing::EmulatedDevices devices(kind.ranks);
    ASSERT_NE(cuda_plugin(), nullptr) << cuda_plugin_problem();
    testing::run_devices(kind.ranks, kind.dtype, [&](Build build) {
      AdapterSet set;
      build.adapters = &set;
      const Made layer = make(build);
      load(set, second);
      const Tensor x = random_rows(kRows, kIn);
      for (const auto& of_rows : kRowsOfSteps) {
        build.ctx.backend().begin_step();
        const AdapterSet::Scope rows(&set, AdapterRows(of_rows));
        const Tensor there = layer.forward(activations(build.ctx, x));
        const std::vector<float> y = to_host(build.ctx, there);
        const int64_t width = layer.columns.size();
        for (int64_t row = 0; row < kRows; ++row) {
          const uint64_t id = of_rows[static_cast<size_t>(row)];
          const ModuleChange* change = id == 1 ? &first : id == 2 ? &second : nullptr;
          const auto want = merged_row(*weights_.find("fc.weight"), *weights_.find("fc.bias"),
                                       change, x.row<float>(row));
          for (int64_t n = 0; n < width; ++n) {
            const double value = want[static_cast<size_t>(n + layer.columns.begin)];
            ASSERT_NEAR(y[static_cast<size_t>(row * width + n)],
                        activation ? activation(value) : value, kind.tolerance)
                << "row " << row << " of adapter " << id << ", feature " << n;
          }
        }
      }
    });
  }

  MakeLayer column(Activation activation = Activation::kNone) {
    return [=, this](const Build& b) {
      const auto fc = std::make_shared<ColumnParallelLinear>(Weights(weights_) / "fc", b, kIn, kOut,
                                                             activation);
      return Made{[fc](const Tensor& x) { return fc->forward(x); },
                  shard_range(kOut, b.comm.rank(), b.comm.size())};
    };
  }
  MakeLayer row() {
    return [this](const Build& b) {
      const Range part = shard_range(kIn, b.comm.rank(), b.comm.size());
      const auto fc =
          std::make_shared<RowParallelLinear>(Weights(weights_) / "fc", b, kIn, kOut, part);
      return Made{
          [fc, part](const Tensor& x) { return fc->forward(x.columns(part.begin, part.end)); },
          {0, kOut}};
    };
  }
  // Its results are f32 in every type.
  MakeLayer head() {
    return [this](const Build& b) {
      const auto head = std::make_shared<ParallelLMHead>(*weights_.find("fc.weight"),
                                                         to_float(*weights_.find("fc.bias")), b);
      head->adapt("fc");
      return Made{[head](const Tensor& x) { return head->forward_shard(x); },
                  shard_range(kOut, b.comm.rank(), b.comm.size())};
    };
  }

  BaseWeights weights_;
};

TEST_P(AdaptedDeviceLayers, LowRank) {
  for (const MakeLayer& make : {column(), row(), head()})
    expect_merged(make, low_rank(kIn, kOut, 20));
}

TEST_P(AdaptedDeviceLayers, BeforeTheActivation) {
  const ModuleChange second = low_rank(kIn, kOut, 20);
  expect_merged(column(Activation::kRelu), second, [](double v) { return std::max(v, 0.0); });
  expect_merged(column(Activation::kTanh), second, [](double v) { return std::tanh(v); });
}

TEST_P(AdaptedDeviceLayers, NormsOfRows) {
  const ModuleChange second = low_rank(kIn, kOut, 30, /*dora=*/true);
  for (const MakeLayer& make : {column(), row(), head()}) expect_merged(make, second);
}

TEST_P(AdaptedDeviceLayers, WholeWeights) {
  ModuleChange second;
  second.weight = random_tensor("fc.weight", {kOut, kIn}, 40);
  for (const MakeLayer& make : {column(), row(), head()}) expect_merged(make, second);
}

TEST_P(AdaptedDeviceLayers, Biases) {
  ModuleChange trained = low_rank(kIn, kOut, 30, /*dora=*/true), alone,
               of_b = low_rank(kIn, kOut, 9);
  trained.bias = alone.bias = random_tensor("bias", {kOut}, 41);
  of_b.b_bias = random_tensor("bias", {kOut}, 43);
  for (const MakeLayer& make : {column(), row(), head()})
    for (const ModuleChange& second : {trained, alone, of_b}) expect_merged(make, second);
}

INSTANTIATE_TEST_SUITE_P(Types, AdaptedDeviceLayers,
                         ::testing::Values(Kind{"f32", DType::kF32, 1, 1e-5f},
                                           Kind{"f32_on_2", DType::kF32, 2, 1e-5f},
                                           Kind{"bf16", DType::kBF16, 1, 0.03f},
                                           Kind{"f16", DType::kF16, 1, 0.004f},
                                           Kind{"bf16_on_2", DType::kBF16, 2, 0.04f}),
                         [](const auto& info) { return std::string(info.param.name); });

class AdaptedDeviceTables : public ::testing::TestWithParam<Kind> {};

TEST_P(AdaptedDeviceTables, RowsGainWhatTheAdapterSays) {
  BaseWeights weights;
  weights.add("t.weight", {kIds, kOut}, 1);
  ModuleChange low = low_rank(kIds, kOut, 5), whole;
  whole.weight = random_tensor("t.weight", {kIds, kOut}, 7);
  const std::vector<int32_t> ids = {3, 10, 0, 5, 9, 1, 7, 2}, positions = {0, 1, 2, 3, 0, 1, 2, 3};
  constexpr float kScale = 3.0f;
  const Kind& kind = GetParam();
  const testing::EmulatedDevices devices(kind.ranks);
  ASSERT_NE(cuda_plugin(), nullptr) << cuda_plugin_problem();
  testing::run_devices(kind.ranks, kind.dtype, [&](Build build) {
    AdapterSet set;
    build.adapters = &set;
    VocabParallelEmbedding layer(*weights.find("t.weight"), build, kScale);
    layer.adapt("t");
    PlainChanges one, two;
    one.modules["t"] = low;
    two.modules["t"] = whole;
    set.load(1, one);
    set.load(2, two);
    const Tensor added = random_rows(4, kOut);
    for (const auto& of_rows : kRowsOfSteps) {
      build.ctx.backend().begin_step();
      const AdapterSet::Scope rows(&set, AdapterRows(of_rows));
      const Tensor there = layer.forward(to_device(build.ctx, Tensor::borrow(ids)),
                                         to_device(build.ctx, Tensor::borrow(positions)),
                                         to_device(build.ctx, added), /*position_offset=*/0);
      const std::vector<float> y = to_host(build.ctx, there);
      for (size_t row = 0; row < ids.size(); ++row)
        for (int64_t n = 0; n < kOut; ++n) {
          const HostTensor& from = of_rows[row] == 2 ? *whole.weight : *weights.find("t.weight");
          double want = at(from, ids[row] * kOut + n);
          for (int64_t j = 0; of_rows[row] == 1 && j < kRank; ++j)
            want += double{kScaling} * at(*low.b, n * kRank + j) * at(*low.a, j * kIds + ids[row]);
          want = kScale * want + added.row<float>(positions[row])[n];
          ASSERT_NEAR(y[row * static_cast<size_t>(kOut) + static_cast<size_t>(n)], want,
                      kind.tolerance)
              << "row " << row << " of adapter " << of_rows[row] << ", feature " << n;
        }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Types, AdaptedDeviceTables,
                         ::testing::Values(Kind{"f32", DType::kF32, 1, 1e-5f},
                                           Kind{"f32_on_3", DType::kF32, 3, 1e-5f},
                                           Kind{"bf16", DType::kBF16, 1, 0.05f},
                                           Kind{"f16", DType::kF16, 2, 0.006f}),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tandem::device_adapters_test
