// InProcessEngine: what the HTTP server gets of an engine, until both have ended.
#include "actors/in_process_engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "tests/support/engine/listener.h"
#include "tests/support/goldens/golden_cluster_config.h"
#include "tests/support/sanitized.h"
#include "tests/support/scheduling/immediate.h"

namespace tandem::actors {
namespace {

using nlohmann::json;
using testing::Listener;
using namespace std::chrono_literals;

// Slow enough for tests to interfere.
class SlowWorker final : public Immediate<Worker> {
 public:
  proto::WorkerLoaded load(const proto::WorkerSetup& setup, const LoadProgress& progress) override {
    return worker_->load(setup, progress);
  }
  void start(const proto::WorkerStart& start) override { worker_->start(start); }
  proto::StepOutput execute(const proto::StepInput& step) override {
    std::this_thread::sleep_for(3ms);
    return worker_->execute(step);
  }
  void abort() override { worker_->abort(); }

 private:
  std::unique_ptr<Worker> worker_ = make_model_worker([](const proto::WorkerSetup&) {
    return std::shared_ptr<Communicator>(make_local_communicator());
  });
};

constexpr int kMany = 120;  // tokens; the model has 128 positions

class InProcessEngineTest : public ::testing::Test {
 protected:
  explicit InProcessEngineTest(
      const ClusterConfig& config = testing::golden_cluster_config("bart-tiny"))
      : cluster(config, [] { return std::make_unique<SlowWorker>(); }),
        engine(std::make_unique<InProcessEngine>(cluster)) {}

  static EngineApi::Request request(const std::string& id, int max_tokens) {
    EngineApi::Request r;
    r.id = id;
    r.prompt = text_prompt("a small lighthouse on the coast");
    r.options = read_options({{"max_tokens", max_tokens}, {"num_beams", 1}, {"ignore_eos", true}});
    return r;
  }
  static bool eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
    return condition();
  }

  Cluster cluster;
  std::unique_ptr<InProcessEngine> engine;
};

TEST_F(InProcessEngineTest, AnswersAsHuggingFace) {
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
  const EngineStatus status = engine->status();
  EXPECT_TRUE(status.ready);
  EXPECT_FALSE(status.draining);
  // Nothing waits for an acknowledgement.
  EXPECT_TRUE(eventually([&] { return engine->status().info.num_requests() == 0; }));
  cluster.drain();
  EXPECT_TRUE(eventually([&] { return cluster.status().drained; }));
  EXPECT_TRUE(engine->status().draining);
}

TEST_F(InProcessEngineTest, EveryStepIsToldAtOnce) {
  Listener heard;
  engine->submit(request("x", 40), heard.callback());
  ASSERT_TRUE(heard.ends());
  EXPECT_EQ(heard.tokens().size(), 40u);
  EXPECT_GE(heard.chunks(), 40);  // however far behind whoever listens is
}

TEST_F(InProcessEngineTest, WhatIsWrongComesAsAChunk) {
  Listener no_prompt, bad_field, twice, first;
  EngineApi::Request r = request("bad", 5);
  r.prompt.Clear();
  engine->submit(r, no_prompt.callback());
  r = request("worse", 5);
  r.options.set_temperature(-1);
  engine->submit(r, bad_field.callback());
  engine->submit(request("x", kMany), first.callback());
  engine->submit(request("x", 4), twice.callback());
  for (Listener* heard : {&no_prompt, &bad_field, &twice}) {
    ASSERT_TRUE(heard->ends());
    EXPECT_EQ(heard->error(), "invalid_request_error");
  }
  engine->cancel("x");
  ASSERT_TRUE(first.ends());
}

// Two texts keep the preparers busy. What is cancelled behind them goes at once, not in its turn:
// its id is free again.
TEST_F(InProcessEngineTest, CancelledTextsDoNotWaitToBePrepared) {
  EngineApi::Request large = request("a", 1);
  std::string text;
  const size_t size = size_t{testing_support::kSanitized ? 4 : 48} << 20;
  for (int i = 0; text.size() < size; ++i) text += " lighthouse" + std::to_string(i);
  large.prompt = text_prompt(text);
  Listener busy[2], cancelled, again;
  for (Listener& heard : busy) {
    engine->submit(large, heard.callback());
    large.id += "b";
  }
  engine->submit(request("x", 1), cancelled.callback());
  engine->cancel("x");
  ASSERT_TRUE(cancelled.ends());
  std::this_thread::sleep_for(300ms);
  if (busy[0].ended() || busy[1].ended())
    GTEST_SKIP() << "the texts are too short for this machine";
  engine->submit(request("x", 1), again.callback());
  ASSERT_TRUE(again.ends());
  EXPECT_EQ(again.error(), "");
  for (Listener& heard : busy) ASSERT_TRUE(heard.ends());
}

TEST_F(InProcessEngineTest, CancelEndsIt) {
  Listener heard;
  engine->submit(request("x", kMany), heard.callback());
  ASSERT_TRUE(heard.hears_a_token());
  engine->cancel("x");
  engine->cancel("x");
  engine->cancel("nobody");
  ASSERT_TRUE(heard.ends());
  EXPECT_EQ(heard.error(), "cancelled");
  EXPECT_TRUE(eventually([&] { return engine->status().info.num_requests() == 0; }));
}

// The server waits for the last chunk of what it submits, whenever that is.
TEST_F(InProcessEngineTest, EverythingEndsWhenItCloses) {
  Listener under_way, afterwards;
  engine->submit(request("x", kMany), under_way.callback());
  ASSERT_TRUE(under_way.hears_a_token());
  engine->close();
  EXPECT_TRUE(under_way.ended());
  EXPECT_EQ(under_way.error(), "unavailable_error");
  engine->submit(request("y", 4), afterwards.callback());
  ASSERT_TRUE(afterwards.ends(5s));
  EXPECT_EQ(afterwards.error(), "unavailable_error");
  engine->close();
}

TEST_F(InProcessEngineTest, EverythingEndsWithTheCluster) {
  Listener under_way, afterwards;
  engine->submit(request("x", kMany), under_way.callback());
  ASSERT_TRUE(under_way.hears_a_token());
  cluster.stop();
  ASSERT_TRUE(under_way.ends(5s));
  EXPECT_EQ(under_way.error(), "unavailable_error");
  engine->submit(request("y", 4), afterwards.callback());
  ASSERT_TRUE(afterwards.ends(5s));
  EXPECT_EQ(afterwards.error(), "unavailable_error");
  engine->cancel("y");
  EXPECT_EQ(engine->status().info.num_restarts(), 0);  // its end is none
  engine.reset();
}

// Requests that come while it closes end too, one way or the other.
TEST_F(InProcessEngineTest, ClosesUnderLoad) {
  std::vector<std::unique_ptr<Listener>> heard;
  for (int i = 0; i < 400; ++i) heard.push_back(std::make_unique<Listener>());
  std::thread load([&] {
    for (size_t i = 0; i < heard.size(); ++i)
      engine->submit(request("x" + std::to_string(i), 3 + static_cast<int>(i % 5)),
                     heard[i]->callback());
  });
  ASSERT_TRUE(heard[20]->ends());
  engine->close();
  load.join();
  for (const auto& one : heard) ASSERT_TRUE(one->ends(5s));
}

class FullEngineTest : public InProcessEngineTest {
 protected:
  static ClusterConfig config() {
    ClusterConfig c = testing::golden_cluster_config("bart-tiny");
    c.requests.max_requests = 1;
    return c;
  }
  FullEngineTest() : InProcessEngineTest(config()) {}
};

TEST_F(FullEngineTest, RepeatsARefusalForAWhile) {
  Listener first, second;
  EXPECT_FALSE(engine->refuse_unread());
  engine->submit(request("x", kMany), first.callback());
  ASSERT_TRUE(first.hears_a_token());
  engine->submit(request("y", 4), second.callback());
  ASSERT_TRUE(second.ends());
  EXPECT_EQ(second.error(), "overloaded_error");
  const auto before = engine->status().info.refused_full();
  if (const auto repeated = engine->refuse_unread()) {  // unless 20 ms have passed
    EXPECT_EQ(repeated->type(), "overloaded_error");
    EXPECT_GT(engine->status().info.refused_full(), before);
  }
  EXPECT_TRUE(eventually([&] { return !engine->refuse_unread(); }));
  engine->cancel("x");
  ASSERT_TRUE(first.ends());
}

// A device, whose answers come a while after the work was given to it. Counts how often it is asked
// for them.
class LateWorker final : public Immediate<Worker> {
 public:
  struct Looks {
    std::atomic<int64_t> looks{0};
    std::atomic<int64_t> waited_us{0};
  };
  explicit LateWorker(Looks& looks) : looks_(looks) {}

  proto::WorkerLoaded load(const proto::WorkerSetup& setup, const LoadProgress& progress) override {
    return worker_->load(setup, progress);
  }
  void start(const proto::WorkerStart& start) override { worker_->start(start); }
  proto::StepOutput execute(const proto::StepInput& step) override {
    return worker_->execute(step);
  }
  void launch(const proto::StepInput& step) override {
    if (steps_launched() == 0) since_ = Clock::now();
    Immediate::launch(step);
  }
  bool ready() override {
    ++looks_.looks;
    return Clock::now() - since_ > 60ms;
  }
  proto::StepOutput finish() override {
    const auto now = Clock::now();
    looks_.waited_us += std::chrono::duration_cast<std::chrono::microseconds>(now - since_).count();
    since_ = now;
    return Immediate::finish();
  }
  void abort() override { worker_->abort(); }

 private:
  using Clock = std::chrono::steady_clock;
  Looks& looks_;
  Clock::time_point since_;
  std::unique_ptr<Worker> worker_ = make_model_worker([](const proto::WorkerSetup&) {
    return std::shared_ptr<Communicator>(make_local_communicator());
  });
};

// It would have a core for each rank, all the time.
TEST(WorkerActor, DoesNotSpinWhileADeviceWorks) {
  LateWorker::Looks looks;
  Cluster cluster(testing::golden_cluster_config("bart-tiny"),
                  [&looks] { return std::make_unique<LateWorker>(looks); });
  InProcessEngine engine(cluster);
  EngineApi::Request r;
  r.id = "x";
  r.prompt = text_prompt("a small lighthouse on the coast");
  r.options = read_options({{"max_tokens", 5}, {"num_beams", 1}, {"ignore_eos", true}});
  Listener heard;
  engine.submit(r, heard.callback());
  ASSERT_TRUE(heard.ends());
  EXPECT_EQ(heard.tokens().size(), 5u);
  // A nap of 50 µs or more between two of them, and two for each step.
  EXPECT_LE(looks.looks, looks.waited_us / 50 + 20);
  EXPECT_GT(looks.looks, 5);
}

}  // namespace
}  // namespace tandem::actors
