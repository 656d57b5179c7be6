// LocalEngine: the thread around EngineShell. What it answers is what LLMEngine does.
#include "runtime/engine/local_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "tests/support/engine/listener.h"
#include "tests/support/engine/sound_prompts.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/goldens/golden_config.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::Listener;
using namespace std::chrono_literals;

constexpr int kMany = 120;  // tokens; the model has 128 positions

EngineApi::Request request(const std::string& id, int max_tokens) {
  EngineApi::Request r;
  r.id = id;
  r.prompt = text_prompt("a small lighthouse on the coast");
  r.options = read_options({{"max_tokens", max_tokens}, {"num_beams", 1}, {"ignore_eos", true}});
  return r;
}

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
  return condition();
}

class LocalEngineTest : public ::testing::Test {
 protected:
  std::unique_ptr<LocalEngine> engine =
      std::make_unique<LocalEngine>(testing::golden_config("bart-tiny"));
};

TEST_F(LocalEngineTest, AnswersAsHuggingFace) {
  const json golden = testing::load_golden("bart-tiny");
  std::vector<std::unique_ptr<Listener>> heard;
  std::vector<std::vector<int>> expected;
  for (const auto& c : golden.at("cases")) {
    if (!c.contains("output_ids") || c.contains("sequences")) continue;
    EngineApi::Request r;
    r.id = "golden-" + std::to_string(heard.size());
    r.prompt =
        read_prompt({{"encoder_prompt", {{"prompt_token_ids", c.at("encoder_ids")}}},
                     {"decoder_prompt", {{"prompt_token_ids", c.at("decoder_prompt_ids")}}}});
    r.options = read_options(c.at("generation"));
    auto ids = c.at("output_ids").get<std::vector<int>>();
    ids.erase(ids.begin(),
              ids.begin() + static_cast<std::ptrdiff_t>(c.at("decoder_prompt_ids").size()));
    expected.push_back(std::move(ids));
    heard.push_back(std::make_unique<Listener>());
    engine->submit(r, heard.back()->callback());
  }
  ASSERT_GE(heard.size(), 10u);
  for (size_t i = 0; i < heard.size(); ++i) {
    ASSERT_TRUE(heard[i]->ends());
    EXPECT_EQ(heard[i]->error(), "");
    EXPECT_EQ(heard[i]->tokens(), expected[i]);
  }
}

TEST_F(LocalEngineTest, EveryStepIsToldAtOnce) {
  Listener heard;
  engine->submit(request("x", 40), heard.callback());
  ASSERT_TRUE(heard.ends());
  EXPECT_EQ(heard.tokens().size(), 40u);
  EXPECT_GE(heard.chunks(), 40);
}

TEST_F(LocalEngineTest, WhatIsWrongComesAsAChunk) {
  Listener no_prompt, no_id, bad_field, twice, first;
  EngineApi::Request r = request("bad", 5);
  r.prompt.Clear();
  engine->submit(r, no_prompt.callback());
  engine->submit(request("", 5), no_id.callback());
  r = request("worse", 5);
  r.options.set_temperature(-1);
  engine->submit(r, bad_field.callback());
  engine->submit(request("x", kMany), first.callback());
  engine->submit(request("x", 4), twice.callback());
  for (Listener* heard : {&no_prompt, &no_id, &bad_field, &twice}) {
    ASSERT_TRUE(heard->ends());
    EXPECT_EQ(heard->error(), "invalid_request_error");
  }
  EXPECT_EQ(bad_field.whole_error().param(), "temperature");
  engine->cancel("x");
  ASSERT_TRUE(first.ends());
}

TEST_F(LocalEngineTest, CancelEndsIt) {
  Listener heard, queued;
  engine->submit(request("x", kMany), heard.callback());
  engine->submit(request("y", kMany), queued.callback());
  engine->cancel("y");
  engine->cancel("x");
  engine->cancel("x");
  engine->cancel("nobody");
  ASSERT_TRUE(heard.ends());
  ASSERT_TRUE(queued.ends());
  EXPECT_EQ(heard.error(), "cancelled");
  EXPECT_EQ(queued.error(), "cancelled");
  EXPECT_TRUE(eventually([&] { return engine->status().info.num_requests() == 0; }));
}

TEST_F(LocalEngineTest, ADeadlineEndsIt) {
  // Far more than can be computed meanwhile, on any machine.
  EngineApi::Request r = request("late", kMany);
  r.timeout = 1e-6;
  Listener late, in_time;
  engine->submit(r, late.callback());
  r = request("in time", 4);
  r.timeout = 1000;
  engine->submit(r, in_time.callback());
  ASSERT_TRUE(late.ends());
  EXPECT_EQ(late.error(), "timeout_error");
  ASSERT_TRUE(in_time.ends());
  EXPECT_EQ(in_time.error(), "");
}

TEST_F(LocalEngineTest, SaysHowItIs) {
  EngineStatus status = engine->status();
  EXPECT_TRUE(status.ready);
  EXPECT_FALSE(status.draining);
  EXPECT_EQ(status.info.model(), testing::golden_config("bart-tiny").loading().model());
  EXPECT_EQ(status.info.dtype(), "float32");
  ASSERT_EQ(status.info.replicas_size(), 1);
  EXPECT_TRUE(status.info.replicas(0).up());
  EXPECT_EQ(status.info.num_requests(), 0);
  Listener heard;
  engine->submit(request("x", 4), heard.callback());
  ASSERT_TRUE(heard.ends());
  EXPECT_TRUE(eventually([&] {
    status = engine->status();
    return status.info.num_requests() == 0 &&
           status.info.replicas(0).stats().num_total_blocks() > 0;
  }));
  EXPECT_EQ(engine->request_processor().model_config().model_type, "bart");
}

TEST_F(LocalEngineTest, EverythingEndsWithIt) {
  Listener under_way, queued;
  engine->submit(request("x", kMany), under_way.callback());
  ASSERT_TRUE(under_way.hears_a_token());
  engine->submit(request("y", kMany), queued.callback());
  engine.reset();
  for (Listener* heard : {&under_way, &queued}) {
    EXPECT_TRUE(heard->ended());
    const std::string& error = heard->error();  // none: it was fast enough
    EXPECT_TRUE(error.empty() || error == "unavailable_error") << error;
  }
}

// A callback may ask for more, and whoever submits need not be the same thread.
TEST_F(LocalEngineTest, TakesRequestsOfManyThreadsAndOfItsOwn) {
  constexpr int kThreads = 4, kEach = 50;
  std::atomic<int> ended{0}, errors{0};
  const auto count = [&](const proto::RequestChunk& chunk) {
    errors += chunk.has_error();
    ended += chunk.finished();
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const std::string id = std::to_string(t) + "." + std::to_string(i);
        engine->submit(request(id, 2 + i % 5), [&, id](const proto::RequestChunk& chunk) {
          count(chunk);
          if (chunk.finished()) engine->submit(request(id + "b", 2), count);
        });
        if (i % 7 == 0) engine->cancel(id + "b");
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return ended == 2 * kThreads * kEach; }));
  engine.reset();
  EXPECT_EQ(ended, 2 * kThreads * kEach);
}

// As many ends as requests, however the end of the engine meets them.
TEST_F(LocalEngineTest, EndsUnderLoad) {
  std::vector<std::unique_ptr<Listener>> heard;
  for (int i = 0; i < 200; ++i) heard.push_back(std::make_unique<Listener>());
  for (size_t i = 0; i < heard.size(); ++i)
    engine->submit(request("x" + std::to_string(i), 3 + static_cast<int>(i % 5)),
                   heard[i]->callback());
  ASSERT_TRUE(heard[5]->ends());
  engine.reset();
  for (const auto& one : heard) EXPECT_TRUE(one->ended());
}

TEST_F(LocalEngineTest, AWholeOutput) {
  auto good = submit_whole(*engine, request("x", 7));
  EngineApi::Request r = request("y", 5);
  r.options.set_temperature(-1);
  auto bad = submit_whole(*engine, std::move(r));
  const proto::RequestOutput output = good.get();
  EXPECT_EQ(output.request_id(), "x");
  EXPECT_TRUE(output.finished());
  EXPECT_EQ(output.outputs(0).token_ids_size(), 7);
  EXPECT_INPUT_ERROR(bad.get(), "temperature");
}

TEST(LocalEngine, SaysWhatIsWrongWithItsModel) {
  EngineConfig config = testing::golden_config("bart-tiny");
  config.mutable_loading()->set_model("/nonexistent");
  EXPECT_INPUT_ERROR(LocalEngine{config}, "/nonexistent");
  config = testing::golden_config("bart-tiny");
  config.mutable_cache()->set_block_size(0);
  EXPECT_INPUT_ERROR(LocalEngine{config}, "--block-size");
}

TEST(LocalEngine, TellsOfLoading) {
  size_t done = 0, total = 0;
  const LocalEngine engine(testing::golden_config("bart-tiny"), [&](size_t d, size_t t) {
    EXPECT_GE(d, done);
    done = d;
    total = t;
  });
  EXPECT_GT(total, 0u);
  EXPECT_EQ(done, total);
}

// In the prompt, or as a file beside it: more of it than is read at once.
TEST(LocalEngine, TranscribesAsLLMEngine) {
  const testing::RandomSpeech model;
  const EngineConfig config = testing::speech_config(model.path());
  constexpr int kSounds = 6;
  const auto sound = [](int i) {
    return testing::RandomSpeech::sound(0.3 + 0.7 * i, static_cast<unsigned>(i));
  };
  std::map<std::string, std::string> want;
  {
    LLMEngine reference(config);
    for (int i = 0; i < kSounds; ++i)
      reference.add_request(std::to_string(i),
                            testing::sound_prompt(sound(i), testing::speech_params(i)),
                            proto::GenerationOptions());
    while (reference.has_unfinished_requests())
      for (const auto& output : reference.step()) want[output.request_id()] = testing::said(output);
  }
  LocalEngine engine(config);
  std::map<std::string, std::future<proto::RequestOutput>> answers;
  for (int i = 0; i < kSounds; ++i) {
    EngineApi::Request r;
    r.id = std::to_string(i);
    r.prompt =
        testing::sound_prompt(i % 2 == 0 ? sound(i) : std::string(), testing::speech_params(i));
    if (i % 2 != 0) r.sound = MediaSource::of_bytes(sound(i), "sound");
    answers[std::to_string(i)] = submit_whole(engine, std::move(r));
  }
  EngineApi::Request none;
  none.id = "none";
  none.prompt = testing::sound_prompt("no sound at all");
  EXPECT_INPUT_ERROR(submit_whole(engine, std::move(none)).get(), "sound: ");
  for (auto& [id, answer] : answers) EXPECT_EQ(testing::said(answer.get()), want.at(id)) << id;
}

}  // namespace
}  // namespace tandem
