// Generations with keys and values in 8 bits, through the CUDA plugin on the emulator: the same
// tokens however steps run and wherever blocks have been, near those of the whole cache.
#include <gtest/gtest.h>

#include "base/error.h"
#include "tests/support/goldens/golden_engine.h"

namespace tandem::kv_cache_8_bits_test {
namespace {

using nlohmann::json;

struct Generation {
  std::map<std::string, std::vector<testing::Ids>> outputs;
  int preemptions = 0;
};

// The first greedy cases of a checkpoint, and one with beams.
Generation generate(const EngineConfig& config, const std::string& checkpoint) {
  LLMEngine engine(config);
  int greedy = 0, beams = 0;
  for (const json& c : testing::generated_cases(checkpoint)) {
    const bool wanted =
        c.at("kind") == "greedy" ? greedy++ < 5 : c.at("kind") == "beam" && beams++ == 0;
    if (!wanted) continue;
    engine.add_request(c.at("name"),
                       {{"encoder_prompt", {{"prompt_token_ids", c.at("encoder_ids")}}}},
                       c.at("generation"));
  }
  Generation result;
  while (engine.has_unfinished_requests()) {
    for (const auto& output : engine.step()) {
      if (!output.finished()) continue;
      result.preemptions += output.metrics().num_preemptions();
      for (const auto& o : output.outputs())
        result.outputs[output.request_id()].emplace_back(o.token_ids().begin(),
                                                         o.token_ids().end());
    }
    engine.check_integrity();
  }
  return result;
}

EngineConfig config_of(const std::string& checkpoint, const std::string& kv_cache_dtype) {
  EngineConfig config = testing::golden_config(checkpoint);
  config.mutable_loading()->set_device("cuda");
  config.mutable_cache()->set_block_size(4);
  config.mutable_cache()->set_num_gpu_blocks_override(2000);
  config.mutable_cache()->set_kv_cache_dtype(kv_cache_dtype);
  return config;
}

// Of a checkpoint and a type of keys and values.
class KvCacheIn8Bits : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

TEST_P(KvCacheIn8Bits, BlocksAndTheirScalesGoTogether) {
  const auto [checkpoint, type] = GetParam();
  const Generation ample = generate(config_of(checkpoint, type), checkpoint);
  ASSERT_EQ(ample.outputs.size(), 6u);
  EXPECT_EQ(ample.preemptions, 0);
  EngineConfig swap = config_of(checkpoint, type);
  swap.mutable_cache()->set_num_gpu_blocks_override(42);
  swap.mutable_scheduling()->set_preemption_mode(testing::preemption_name(PreemptionMode::kSwap));
  swap.mutable_loading()->set_enforce_eager(true);
  const Generation swapped = generate(swap, checkpoint);
  EXPECT_GT(swapped.preemptions, 0);
  EXPECT_EQ(swapped.outputs, ample.outputs);
  // It is not the whole cache under another name.
  EXPECT_NE(generate(config_of(checkpoint, "auto"), checkpoint).outputs, ample.outputs);
}

INSTANTIATE_TEST_SUITE_P(, KvCacheIn8Bits,
                         ::testing::Values(std::tuple("bart-tiny", "fp8"),
                                           std::tuple("bart-odd-heads", "fp8"),
                                           std::tuple("bart-odd-heads", "int8")),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param)).substr(5, 3) + "_" +
                                  std::get<1>(info.param);
                         });

TEST(KvCacheSpec, HalfTheBytesOfBFloat16) {
  const KvCacheSpec bf16{12, 16, 64, DType::kBF16}, f8{12, 16, 64, DType::kF8E4M3},
      i8{12, 16, 64, DType::kI8};
  EXPECT_EQ(bf16.block_bytes(16), size_t{2} * 12 * 16 * 16 * 128);
  EXPECT_EQ(f8.block_bytes(16), size_t{2} * 12 * 16 * 16 * 65);
  EXPECT_EQ(i8.block_bytes(16), size_t{2} * 12 * 16 * 16 * 68);
}

TEST(KvCacheOnACpu, NeedsADeviceThatConverts) {
  EngineConfig config = config_of("bart-tiny", "fp8");
  config.mutable_loading()->set_device("cpu");
  try {
    const LLMEngine engine(config);
    FAIL() << "a CPU has no 8-bit floats";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("--kv-cache-dtype"), std::string::npos);
  }
}

}  // namespace
}  // namespace tandem::kv_cache_8_bits_test
