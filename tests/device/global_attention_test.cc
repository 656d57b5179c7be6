// Windows and global tokens through the CUDA plugin, on the emulator: embeddings and tokens are the
// CPU's.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "tests/support/goldens/golden_config.h"
#include "tests/support/goldens/random_led.h"

namespace tandem::global_attention_test {
namespace {

using nlohmann::json;

// Batches of requests of several lengths, global tokens in some of them; all its numbers by
// request.
std::map<std::string, std::vector<float>> numbers(const std::filesystem::path& model,
                                                  const std::string& device) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_loading()->set_model(model.string());
  config.mutable_loading()->set_device(device);
  config.mutable_cache()->set_num_gpu_blocks_override(500);
  LLMEngine engine(config);
  std::mt19937 random(9);
  const json globals[] = {json::array(), {0}, {3, 0}, {0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}};
  const char* const kinds[] = {"mean", "cls", "last"};
  int request = 0;
  for (const int length : {15, 33, 80})
    for (const json& global : globals) {
      json ids = json::array();
      for (int i = 0; i < length; ++i) ids.push_back(random() % 2000);
      const json encoder = {{"prompt_token_ids", ids}, {"global_attention", global}};
      engine.add_request(
          "e" + std::to_string(request),
          read_prompt({{"encoder_prompt", encoder}, {"pooling", kinds[request % 3]}}), {});
      engine.add_request("t" + std::to_string(request++), read_prompt(encoder),
                         read_options({{"logprobs", 0}, {"max_new_tokens", 5}}));
    }
  std::map<std::string, std::vector<float>> out;
  while (engine.has_unfinished_requests())
    for (const auto& output : engine.step()) {
      std::vector<float>& all = out[output.request_id()];
      all = {output.embedding().values().begin(), output.embedding().values().end()};
      for (const auto& sequence : output.outputs())
        for (const auto& token : sequence.logprobs()) {
          all.push_back(static_cast<float>(token.top(0).token_id()));
          all.push_back(token.top(0).logprob());
        }
    }
  return out;
}

TEST(GlobalAttentionOnADevice, IsTheCpus) {
  const testing::RandomLed files;
  const auto want = numbers(files.path(), "cpu"), got = numbers(files.path(), "cuda");
  ASSERT_EQ(got.size(), size_t{24});
  for (const auto& [id, values] : want) {
    SCOPED_TRACE(id);
    ASSERT_EQ(got.at(id).size(), values.size());
    ASSERT_FALSE(values.empty());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(got.at(id)[i], values[i], 3e-4);
  }
}

}  // namespace
}  // namespace tandem::global_attention_test
