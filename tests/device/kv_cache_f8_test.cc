// Generations with keys and values in 8 bits, through the CUDA plugin on the emulator: the same
// tokens however steps run and wherever blocks have been, near those of the whole cache.
#include <gtest/gtest.h>

#include "kernels/core/error.h"
#include "tests/support/golden_engine.h"

namespace tandem {
namespace {

using nlohmann::json;

using Results = std::map<std::string, std::vector<testing::Ids>>;

// Of all goldens of a checkpoint.
Results generate(const EngineConfig& config, const std::string& checkpoint) {
  LLMEngine engine(config);
  for (const json& c : testing::generated_cases(checkpoint)) {
    json prompt = {{"encoder_prompt", {{"prompt_token_ids", c.at("encoder_ids")}}}};
    if (c.contains("decoder_prompt_ids"))
      prompt["decoder_prompt"] = {{"prompt_token_ids", c.at("decoder_prompt_ids")}};
    engine.add_request(c.at("name"), prompt, c.at("generation"));
  }
  Results results;
  while (engine.has_unfinished_requests()) {
    for (const auto& output : engine.step()) {
      if (!output.finished()) continue;
      for (const auto& o : output.outputs())
        results[output.request_id()].emplace_back(o.token_ids().begin(), o.token_ids().end());
    }
    engine.check_integrity();
  }
  return results;
}

EngineConfig config_of(const std::string& checkpoint, std::optional<DType> kv_cache_dtype) {
  EngineConfig config = testing::golden_config(checkpoint);
  config.device = "cuda";
  config.block_size = 4;
  config.num_gpu_blocks_override = 2000;
  config.kv_cache_dtype = kv_cache_dtype;
  return config;
}

TEST(KvCacheF8, BlocksAndTheirScalesGoTogether) {
  for (const char* checkpoint : {"bart-tiny", "bart-odd-heads"}) {
    const auto ample = generate(config_of(checkpoint, DType::kF8E4M3), checkpoint);
    ASSERT_FALSE(ample.empty());
    EngineConfig swap = config_of(checkpoint, DType::kF8E4M3);
    swap.num_gpu_blocks_override = 100;
    swap.preemption = PreemptionMode::kSwap;
    EXPECT_EQ(generate(swap, checkpoint), ample) << checkpoint;
    EngineConfig eager = config_of(checkpoint, DType::kF8E4M3);
    eager.enforce_eager = true;
    eager.block_size = 16;
    EXPECT_EQ(generate(eager, checkpoint), ample) << checkpoint;
    // It is not the whole cache under another name.
    EXPECT_NE(generate(config_of(checkpoint, std::nullopt), checkpoint), ample) << checkpoint;
  }
}

TEST(KvCacheF8, HalfTheBytesOfBFloat16) {
  const KvCacheSpec bf16{12, 16, 64, DType::kBF16}, f8{12, 16, 64, DType::kF8E4M3};
  EXPECT_EQ(bf16.block_bytes(16), size_t{2} * 12 * 16 * 16 * 128);
  EXPECT_EQ(f8.block_bytes(16), size_t{2} * 12 * 16 * 16 * 65);
}

TEST(KvCacheF8, NeedsADeviceThatConverts) {
  EngineConfig config = config_of("bart-tiny", DType::kF8E4M3);
  config.device = "cpu";
  try {
    const LLMEngine engine(config);
    FAIL() << "a CPU has no 8-bit floats";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("--kv-cache-dtype"), std::string::npos);
  }
}

}  // namespace
}  // namespace tandem
