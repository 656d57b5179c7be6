// The layer between a decoder and its output embedding: adapters can change it.
#include "models/blocks/head_transform.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "parallel/layers/adapters.h"
#include "tests/support/random_tensors.h"

namespace tandem::head_transform_test {
namespace {

TEST(HeadTransform, AdaptersReachItsLayer) {
  constexpr int64_t kWidth = 16;
  testing::RandomTensors source;
  source.add("head.dense.weight", {kWidth, kWidth});
  source.add("head.dense.bias", {kWidth});
  source.add("head.norm.weight", {kWidth});
  source.add("head.norm.bias", {kWidth});
  const Weights w(source, "");
  Context ctx(1);
  const auto comm = make_local_communicator();
  AdapterSet set;
  Build build{ctx, *comm, DType::kF32};
  build.adapters = &set;
  const HeadTransform layer(w / "head.dense", w / "head.norm", build, kWidth, Activation::kGelu,
                            1e-12f);
  std::vector<std::string> names;
  for (const AdaptableModule& module : set.modules()) names.push_back(module.name);
  EXPECT_EQ(names, std::vector<std::string>{"head.dense"});
}

}  // namespace
}  // namespace tandem::head_transform_test
