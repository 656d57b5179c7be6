// Whole requests in int8 and int4: their tokens and scores depend neither on the batch, nor on the
// threads, nor on the level of the CPU, as long as its encoder attention is in f32, greedy or with
// beams; a worker takes the type by its name.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "base/error.h"
#include "kernels/core/cpu_features.h"
#include "kernels/cpu/isa/isa.h"
#include "runtime/execution/worker.h"
#include "runtime/execution/worker_setup.h"
#include "tests/support/goldens/golden_results.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::one_by_one;
using testing::Results;
using testing::together;

EngineConfig config_for(const std::string& checkpoint, DType dtype) {
  EngineConfig config = testing::golden_config(checkpoint);
  config.mutable_loading()->set_dtype(name_of(dtype));
  config.mutable_cache()->set_block_size(4);
  return config;
}

using Case = std::tuple<const char*, DType>;
class IntegerTypes : public ::testing::TestWithParam<Case> {
 protected:
  const char* checkpoint_ = std::get<0>(GetParam());
  EngineConfig config_ = config_for(checkpoint_, std::get<1>(GetParam()));
};

TEST_P(IntegerTypes, ResultsDoNotDependOnTheBatch) {
  const std::vector<json> cases = testing::generated_cases(checkpoint_);
  const Results alone = one_by_one(config_, cases);
  const uint32_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  EXPECT_EQ(together(config_, cases, seed), alone);
  config_.mutable_loading()->set_threads(3);
  config_.mutable_cache()->set_block_size(16);
  config_.mutable_scheduling()->set_max_num_batched_tokens(128);
  config_.mutable_cache()->set_enable_encoder_cache(false);
  config_.mutable_cache()->set_enable_prefix_caching(false);
  EXPECT_EQ(together(config_, cases, seed + 1), alone);
}

// Levels that round to 16 bits in the attention of the encoder have other results.
TEST_P(IntegerTypes, ResultsDoNotDependOnTheCpu) {
  const std::vector<json> cases = testing::generated_cases(checkpoint_);
  set_cpu_isa(CpuIsa::kGeneric);
  const Results generic = together(config_, cases, 1);
  int compared = 0;
  for (const CpuIsa isa : cpu_isas()) {
    set_cpu_isa(isa);
    if (isa == CpuIsa::kGeneric || cpu::isa_kernels().ragged_16.attend != nullptr) continue;
    EXPECT_EQ(together(config_, cases, 1), generic) << name_of(isa);
    ++compared;
  }
  set_cpu_isa(best_cpu_isa());
  if (compared == 0) GTEST_SKIP() << "this processor has no other level with attention in f32";
}

INSTANTIATE_TEST_SUITE_P(Goldens, IntegerTypes,
                         ::testing::Combine(::testing::Values("bart-tiny", "bart-odd-heads"),
                                            ::testing::Values(DType::kI8, DType::kI4)),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + "_" + name_of(std::get<1>(info.param));
                         });

TEST(IntegerTypesWorker, SaysTheTypeOfKeysAndValues) {
  EngineConfig config = config_for("bart-tiny", DType::kI8);
  EXPECT_EQ(setup_for(config, DType::kI8).config().loading().dtype(), "int8");
  config.mutable_cache()->set_kv_cache_dtype("int8");
  proto::WorkerSetup setup = setup_for(config, DType::kI8);
  setup.set_size(1);
  const auto worker = [] {
    return make_model_worker([](const proto::WorkerSetup&) { return make_local_communicator(); });
  };
  config.mutable_cache()->clear_kv_cache_dtype();
  proto::WorkerSetup bf16 = setup_for(config, DType::kI8);
  for (proto::WorkerSetup* s : {&setup, &bf16})
    s->set_size(1), s->mutable_config()->mutable_cache()->set_kv_cache_memory(1 << 20);
  EXPECT_GT(worker()->load(setup, {}).num_device_blocks(),
            worker()->load(bf16, {}).num_device_blocks());
  for (const auto& [name, words] : std::map<std::string, std::string>{
           {"int3", "auto, int8, fp8, fp8_e4m3"}, {"fp8", "fp8 needs a GPU"}}) {
    setup.mutable_config()->mutable_cache()->set_kv_cache_dtype(name);
    try {
      worker()->load(setup, {});
      FAIL();
    } catch (const InputError& e) {
      EXPECT_NE(std::string(e.what()).find(words), std::string::npos) << e.what();
    }
  }
}

TEST(IntegerTypesWorker, LoadsByTheNameOfTheType) {
  const auto worker = [] {
    return make_model_worker([](const proto::WorkerSetup&) { return make_local_communicator(); });
  };
  for (const DType type : {DType::kI8, DType::kI4}) {
    proto::WorkerSetup setup = setup_for(config_for("bart-tiny", type), type);
    EXPECT_EQ(setup.config().loading().dtype(), name_of(type));
    setup.set_size(1);
    EXPECT_GT(worker()->load(setup, {}).num_device_blocks(), 0);
    setup.mutable_config()->mutable_loading()->set_dtype("int3");
    try {
      worker()->load(setup, {});
      FAIL();
    } catch (const InputError& e) {
      EXPECT_EQ(e.param(), "--dtype");
      EXPECT_NE(std::string(e.what()).find("float32, float16, half, bfloat16, int8, int4"),
                std::string::npos);
    }
  }
}

}  // namespace
}  // namespace tandem
