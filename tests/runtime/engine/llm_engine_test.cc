// LLMEngine: the shell around EngineCore, StepLoop and Worker.

#include "runtime/engine/llm_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "runtime/protocol/output_cursor.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem {
namespace {

using ::testing::ElementsAre;

// The requests, in the order of their ends.
std::vector<std::string> ended(LLMEngine& engine) {
  std::vector<std::string> ids;
  while (engine.has_unfinished_requests())
    for (const auto& output : engine.step()) ids.push_back(output.request_id());
  engine.check_integrity();
  return ids;
}

// What a step copies does not grow with what there was before: a token is in one chunk, and an
// output is returned once, when it is whole.
TEST(LLMEngine, TellsEachTokenOnce) {
  LLMEngine engine(testing::golden_config("bart-tiny"));
  std::map<std::string, proto::RequestOutput> gathered;
  size_t bytes = 0;
  engine.stream_to([&](const proto::RequestChunk& chunk) {
    append_chunk(gathered[chunk.request_id()], chunk);
    bytes += chunk.ByteSizeLong();
  });
  // Bytes of all chunks for so many tokens of each of three sequences, one of them not streamed.
  const auto bytes_for = [&](int tokens) {
    bytes = 0;
    engine.add_request(
        "n", "some text",
        {{"n", 2}, {"do_sample", true}, {"seed", 4}, {"max_tokens", tokens}, {"ignore_eos", true}});
    engine.add_request("beams", "some text",
                       {{"num_beams", 3}, {"max_tokens", tokens}, {"ignore_eos", true}});
    std::map<std::string, proto::RequestOutput> returned;
    while (engine.has_unfinished_requests())
      for (const auto& output : engine.step()) {
        EXPECT_TRUE(output.finished());
        EXPECT_TRUE(returned.emplace(output.request_id(), output).second) << "twice";
      }
    EXPECT_EQ(returned.size(), 2u);
    for (const auto& [id, output] : returned) {
      proto::RequestOutput& streamed = gathered.at(id);
      streamed.set_request_id(id);
      EXPECT_EQ(streamed.SerializeAsString(), output.SerializeAsString());
    }
    EXPECT_EQ(returned.at("n").outputs(1).token_ids_size(), tokens);
    gathered.clear();
    return static_cast<double>(bytes);
  };
  const double few = bytes_for(15), twice = bytes_for(30), four_times = bytes_for(60);
  EXPECT_LT(four_times - twice, 2.3 * (twice - few));
}

// The shell refuses what the core or the scheduler refuse, and is as it was.
TEST(LLMEngine, RefusesWithoutATrace) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_cache()->set_num_gpu_blocks_override(4);
  config.mutable_cache()->set_block_size(4);
  LLMEngine engine(config);
  engine.add_request("a", "text", {{"max_tokens", 2}});
  EXPECT_THROW(engine.add_request("a", "text", {{"max_tokens", 2}}), InputError);
  EXPECT_THROW(engine.add_request("", "text", {{"max_tokens", 2}}), InputError);
  try {
    engine.add_request("b", "text", {{"max_tokens", 60}});
    ADD_FAILURE() << "it can never run";
  } catch (const InputError& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kResource);
  }
  engine.check_integrity();
  EXPECT_FALSE(engine.abort_request("b"));
  EXPECT_THAT(ended(engine), ElementsAre("a"));
  engine.add_request("b", "text", {{"max_tokens", 2}});
  EXPECT_THAT(ended(engine), ElementsAre("b"));
}

}  // namespace
}  // namespace tandem
