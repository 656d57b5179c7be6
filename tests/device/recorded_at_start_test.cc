// Steps that are recorded before the first request: plain decoding is replayed from its first step
// on, whatever lengths come, with the CPU's tokens; what recordings take of the memory is known.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <map>
#include <string>
#include <vector>

#include "models/load_model.h"
#include "parallel/communicators/communicator.h"
#include "runtime/execution/device/recording_cost.h"
#include "tests/support/goldens/golden_engine.h"

namespace tandem::recorded_at_start_test {
namespace {

using testing::json;
using Tokens = std::map<std::string, std::vector<int32_t>>;

void capture(EngineConfig& config, const std::vector<int>& sizes) {
  config.mutable_loading()->mutable_cudagraph_capture_sizes()->Assign(sizes.begin(), sizes.end());
}

EngineConfig device_config(const std::string& checkpoint, const std::vector<int>& sizes) {
  EngineConfig config = testing::golden_config(checkpoint);
  config.mutable_loading()->set_device("cuda");
  config.mutable_cache()->set_block_size(2);
  config.mutable_cache()->set_num_gpu_blocks_override(2000);
  config.mutable_scheduling()->set_max_num_seqs(12);
  capture(config, sizes);
  return config;
}

json greedy(int tokens) {
  return {{"max_tokens", tokens},
          {"num_beams", 1},
          {"do_sample", false},
          {"ignore_eos", true},
          {"no_repeat_ngram_size", 0},
          {"min_tokens", 0},
          {"forced_bos_token_id", nullptr},
          {"forced_eos_token_id", nullptr}};
}

// Requests of several lengths that come one after the other: batches of 1 to `requests`.
Tokens generate(LLMEngine& engine, int requests, int source) {
  Tokens out;
  const int start = engine.model_config().decoder_start_token_id;
  for (int next = 0; next < requests || engine.has_unfinished_requests();) {
    if (next < requests) {
      std::vector<int> prompt{0};
      for (int i = 0; i < source + next; ++i) prompt.push_back(4 + (7 * i + next) % 50);
      prompt.push_back(2);
      // (A decoder prompt of one token: steps with longer ones are no plain decoding.)
      engine.add_request(std::to_string(next),
                         json{{"encoder_prompt", {{"prompt_token_ids", prompt}}},
                              {"decoder_prompt", {{"prompt_token_ids", {start}}}}},
                         greedy(6 + 3 * next));
      ++next;
    }
    for (const auto& each : engine.step())
      if (each.finished())
        out[each.request_id()].assign(each.outputs(0).token_ids().begin(),
                                      each.outputs(0).token_ids().end());
  }
  return out;
}

void expect_replayed(const std::string& checkpoint, int requests, int source,
                     const std::vector<int>& sizes, int recordings) {
  EngineConfig config = device_config(checkpoint, sizes);
  LLMEngine engine(config);
  EXPECT_EQ(engine.decoder_stats().prepared, recordings);
  EXPECT_EQ(engine.decoder_stats().run, 0);
  const Tokens got = generate(engine, requests, source);
  const DecoderStats stats = engine.decoder_stats();
  EXPECT_GT(stats.run, 8);
  EXPECT_EQ(stats.replayed, stats.run) << "a step ran as it is";
  EXPECT_EQ(stats.recorded, 0) << "a step was recorded while requests waited";
  config.mutable_loading()->set_device("cpu");
  LLMEngine cpu(config);
  EXPECT_EQ(got, generate(cpu, requests, source));
}

// (3 is 4 sequences, the next size of steps.)
TEST(RecordedAtStart, PlainDecodingIsReplayed) {
  expect_replayed("bart-tiny", 12, 3, {1, 2, 3, 8, 12}, 9);
}

// Behind 512 keys attention has several chunks, of the same recording.
TEST(RecordedAtStart, LongSourcesToo) { expect_replayed("t5-tiny", 2, 512, {1, 2}, 4); }

TEST(RecordedAtStart, NoneIfNoneIsWanted) {
  EngineConfig config = device_config("bart-tiny", {1, 4});
  config.mutable_loading()->set_enforce_eager(true);
  LLMEngine eager(config);
  EXPECT_EQ(eager.decoder_stats().prepared, 0);
  generate(eager, 2, 3);
  EXPECT_EQ(eager.decoder_stats().replayed, 0);
  LLMEngine later(device_config("bart-tiny", {0}));
  EXPECT_EQ(later.decoder_stats().prepared, 0);
  generate(later, 2, 3);
  EXPECT_GT(later.decoder_stats().recorded, 0) << "at the second step of a shape";
}

// Rows that the host chooses are recorded like others, up to their logits.
TEST(RecordedAtStart, RowsOfTheHostLater) {
  EngineConfig config = device_config("bart-tiny", {0});
  const auto run = [&] {
    LLMEngine engine(config);
    std::map<std::string, std::string> texts;
    for (int i = 0; i < 5; ++i) {
      json params = greedy(12);
      if (i % 2 == 0) params.update({{"typical_p", 0.6}, {"do_sample", true}, {"seed", i}});
      engine.add_request(std::to_string(i),
                         {{"encoder_prompt", {{"prompt_token_ids", {0, 7, 8 + i, 9, 2}}}}}, params);
    }
    while (engine.has_unfinished_requests())
      for (const auto& output : engine.step())
        if (output.finished()) texts[output.request_id()] = output.outputs(0).DebugString();
    return std::pair(texts, engine.decoder_stats());
  };
  const auto [recorded, stats] = run();
  EXPECT_GT(stats.recorded, 0);
  EXPECT_GT(stats.replayed, 6) << "of " << stats.run;
  config.mutable_loading()->set_enforce_eager(true);
  const auto [eager, none] = run();
  EXPECT_EQ(none.recorded, 0);
  EXPECT_EQ(recorded, eager);
}

// A size that was not asked for is recorded when it comes for the second time.
TEST(RecordedAtStart, OtherSizesLater) {
  LLMEngine engine(device_config("bart-tiny", {1}));
  EXPECT_EQ(engine.decoder_stats().prepared, 2) << "with logits and without";
  generate(engine, 2, 3);
  EXPECT_EQ(engine.decoder_stats().recorded, 1);
}

TEST(RecordedAtStart, SizesByDefault) {
  EngineConfig config;
  config.mutable_scheduling()->set_max_num_seqs(33);
  EXPECT_EQ(recorded_sizes(config), (std::vector<int>{40, 32, 28, 24, 20, 16, 12, 8, 4, 2, 1}));
  config.mutable_scheduling()->set_max_num_seqs(1 << 20);
  EXPECT_EQ(recorded_sizes(config).front(), 512);
  EXPECT_EQ(recorded_sizes(config).back(), 1);
  capture(config, {3, 0, 600, 4, 1});
  EXPECT_EQ(recorded_sizes(config), (std::vector<int>{640, 4, 1}));
  config.mutable_scheduling()->set_max_num_seqs(3);
  EXPECT_EQ(recorded_sizes(config), (std::vector<int>{4, 1}));
  config.mutable_loading()->set_enforce_eager(true);
  EXPECT_EQ(recorded_sizes(config), std::vector<int>());
  capture(config, {-1});
  EXPECT_THROW(check_config(config), InputError);
}

// What two recordings take says what all will, and the cache has that much less.
TEST(RecordedAtStart, TheirMemoryIsCounted) {
  setenv("TANDEM_EMULATOR_MEMORY", "700000000", 1);
  EngineConfig config = device_config("bart-tiny", {1, 2, 4, 8, 12});
  config.mutable_cache()->clear_num_gpu_blocks_override();
  config.mutable_cache()->clear_kv_cache_memory();
  config.mutable_scheduling()->set_max_num_seqs(4000);
  config.mutable_scheduling()->set_max_num_batched_tokens(64);
  const auto ctx = make_context(config, DType::kF32, 1);
  if (ctx->backend().name().find("emulated") == std::string::npos) {
    unsetenv("TANDEM_EMULATOR_MEMORY");
    GTEST_SKIP() << "a GPU's recordings take what they take";
  }
  const auto comm = make_local_communicator();
  const ModelConfig model_config = ModelConfig::load(config.loading().model());
  Checkpoint checkpoint = Checkpoint::open(config.loading().model());
  const auto model = load_model(model_config, checkpoint, {*ctx, *comm, DType::kF32});
  const std::vector<int> sizes = recorded_sizes(config);
  const auto free = [&] {
    const DeviceMemory memory = ctx->backend().memory();
    return memory.free + memory.scratch;
  };
  const size_t before = free();
  const RecordingCost cost = cost_of_recordings(*ctx, *model, config, sizes, 1);
  EXPECT_EQ(free(), before) << "something of the trial is left";
  constexpr size_t kNode = 4096;  // of the emulator's recordings
  EXPECT_GT(cost.at_start, 9 * 20 * kNode);
  EXPECT_LT(cost.at_start, 9 * 40 * kNode);
  EXPECT_GT(cost.later, 0u);
  EXPECT_EQ(cost_of_recordings(*ctx, *model, config, {}, 1).at_start, 0u);
  EXPECT_GT(cost_of_recordings(*ctx, *model, config, sizes, 2).at_start, 0u) << "groups";
  const KvCacheSpec spec = model->kv_cache_spec();
  const auto blocks = [&](size_t kept) {
    return cache_size_for(config, *ctx, model_config, spec, 1, 0, kept).num_device_blocks;
  };
  const size_t lost = static_cast<size_t>(blocks(0) - blocks(cost.all())) * spec.block_bytes(2);
  unsetenv("TANDEM_EMULATOR_MEMORY");
  EXPECT_NEAR(static_cast<double>(lost), static_cast<double>(cost.all()),
              static_cast<double>(spec.block_bytes(2)));
}

}  // namespace
}  // namespace tandem::recorded_at_start_test
