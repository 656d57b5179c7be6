// Engine, scheduler, supervisor and worker actors in one process, driven through the client
// library: HuggingFace's tokens however the ranks are arranged, and whatever a worker does.
#include "actors/cluster.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/support/engine/cluster_client.h"
#include "tests/support/goldens/golden_cluster_config.h"
#include "tests/support/goldens/golden_embeddings.h"
#include "tests/support/scheduling/immediate.h"

namespace tandem::actors {
namespace {

using nlohmann::json;
using Tokens = std::vector<int>;

struct Case {
  std::string name;
  client::Request request;
  Tokens expected;  // generated tokens
};

std::vector<Case> golden_cases(const std::string& checkpoint) {
  std::vector<Case> out;
  const json golden = testing::load_golden(checkpoint);
  for (const auto& c : golden.at("cases")) {
    if (!c.contains("output_ids") || c.contains("sequences")) continue;
    Case one;
    one.name = c.at("name");
    const json prompt = {{"encoder_prompt", {{"prompt_token_ids", c.at("encoder_ids")}}},
                         {"decoder_prompt", {{"prompt_token_ids", c.at("decoder_prompt_ids")}}}};
    one.request.prompt = client::Prompt::raw_json(prompt.dump());
    one.request.params_json = c.at("generation").dump();
    const auto all = c.at("output_ids").get<Tokens>();
    one.expected.assign(
        all.begin() + static_cast<std::ptrdiff_t>(c.at("decoder_prompt_ids").size()), all.end());
    out.push_back(std::move(one));
  }
  EXPECT_GE(out.size(), 10u) << checkpoint;
  return out;
}

bool wait_for(Cluster& cluster, const std::function<bool(const ClusterStatus&)>& condition) {
  ClusterStatus status = cluster.status();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (!condition(status)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    status = cluster.wait_for_change(status, std::chrono::milliseconds(100));
  }
  return true;
}

// Submits `rounds` copies of all cases at once; every one must give its tokens.
void expect_goldens(Cluster& cluster, const std::vector<Case>& cases, int rounds = 1) {
  auto client = client::connect_to(cluster, "test");
  std::vector<std::pair<const Case*, client::RequestHandle>> handles;
  for (int round = 0; round < rounds; ++round)
    for (const Case& c : cases) handles.emplace_back(&c, client.submit(c.request));
  for (const auto& [c, handle] : handles) {
    try {
      const proto::RequestOutput output = handle.get();
      ASSERT_EQ(output.outputs_size(), 1) << c->name;
      const auto& ids = output.outputs(0).token_ids();
      EXPECT_EQ(Tokens(ids.begin(), ids.end()), c->expected) << c->name;
    } catch (const client::ClientError& e) {
      ADD_FAILURE() << c->name << ": " << e.type() << ": " << e.what();
    }
  }
}

TEST(Cluster, GoldensOnThreads) {
  for (const char* checkpoint : {"bart-tiny", "bart-odd-heads"}) {
    const auto cases = golden_cases(checkpoint);
    for (const auto& [tp, pp, dp, steps] : {std::tuple{1, 1, 1, 1},
                                            {1, 1, 1, 2},
                                            {2, 1, 1, 2},
                                            {4, 1, 1, 3},
                                            {2, 1, 2, 2},
                                            {1, 4, 1, 2},
                                            {2, 2, 1, 1},
                                            {1, 2, 2, 2}}) {
      SCOPED_TRACE(::testing::Message() << checkpoint << " tp " << tp << " pp " << pp << " dp "
                                        << dp << " steps " << steps);
      ClusterConfig config = testing::golden_cluster_config(checkpoint);
      config.engine.mutable_parallel()->set_pipeline_parallel_size(pp);
      config.tensor_parallel_size = tp;
      config.data_parallel_size = dp;
      config.max_steps_in_flight = steps;
      Cluster cluster(config, std::unique_ptr<GroupLauncher>());
      expect_goldens(cluster, cases, 2);
      cluster.stop();
      EXPECT_TRUE(cluster.status().stopped);
      EXPECT_FALSE(cluster.status().given_up);
      EXPECT_EQ(cluster.status().restarts, 0);  // its end is none
    }
  }
}

// --- Workers that fail ---------------------------------------------------------------------------

// What goes wrong, shared by all generations of the workers.
struct Faults {
  std::atomic<int> steps{0};  // so far, over all generations
  std::atomic<int> generations{0};
  std::function<void(int step, proto::StepOutput& out)> after;  // may throw, block or lie
  std::function<void(int generation)> on_load;
  std::mutex mutex;
  std::condition_variable changed;
  int aborted = 0;

  void block_until_aborted() {
    std::unique_lock lock(mutex);
    const int before = aborted;
    changed.wait_for(lock, std::chrono::seconds(60), [&] { return aborted > before; });
    throw std::runtime_error("aborted");
  }
};

class FaultyWorker final : public Immediate<Worker> {
 public:
  explicit FaultyWorker(Faults& faults)
      : faults_(faults), worker_(make_model_worker([](const proto::WorkerSetup&) {
          return std::shared_ptr<Communicator>(make_local_communicator());
        })) {}
  proto::WorkerLoaded load(const proto::WorkerSetup& setup, const LoadProgress& progress) override {
    const int generation = ++faults_.generations;
    if (faults_.on_load) faults_.on_load(generation);
    return worker_->load(setup, progress);
  }
  void start(const proto::WorkerStart& start) override { worker_->start(start); }
  proto::StepOutput execute(const proto::StepInput& step) override {
    auto out = worker_->execute(step);
    if (faults_.after) faults_.after(++faults_.steps, out);
    return out;
  }
  void abort() override {
    worker_->abort();
    const std::lock_guard lock(faults_.mutex);
    ++faults_.aborted;
    faults_.changed.notify_all();
  }

 private:
  Faults& faults_;
  std::unique_ptr<Worker> worker_;
};

void expect_recovery(Faults& faults, ClusterConfig config, int least_restarts) {
  const auto cases = golden_cases("bart-tiny");
  config.max_restarts = 100;
  Cluster cluster(config, [&] { return std::make_unique<FaultyWorker>(faults); });
  expect_goldens(cluster, cases, 3);
  EXPECT_GE(cluster.status().restarts, least_restarts);
  EXPECT_GE(faults.generations, least_restarts + 1);
  cluster.stop();
}

TEST(ClusterFaults, ThrowsNowAndThen) {
  Faults faults;
  faults.after = [](int step, proto::StepOutput&) {
    if (step % 17 == 0) throw CommunicatorError("step " + std::to_string(step) + " fails");
  };
  expect_recovery(faults, testing::golden_cluster_config("bart-tiny"), 3);
}

// A request that no worker survives is refused; those that ran beside it finish.
TEST(ClusterFaults, PoisonousRequest) {
  const auto cases = golden_cases("bart-tiny");
  Faults faults;
  faults.after = [&](int, proto::StepOutput& out) {
    for (const auto& group : out.outputs())
      if (group.request_id() == "poison") throw std::runtime_error("cannot swallow this");
  };
  Cluster cluster(testing::golden_cluster_config("bart-tiny"),
                  [&] { return std::make_unique<FaultyWorker>(faults); });
  auto client = client::connect_to(cluster, "test");
  std::vector<client::RequestHandle> handles;
  for (const Case& c : cases) handles.push_back(client.submit(c.request));
  client::Request request = cases[0].request;
  request.id = "poison";
  const client::RequestHandle refused = client.submit(request);
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto output = handles[i].get();
    const auto& ids = output.outputs(0).token_ids();
    EXPECT_EQ(Tokens(ids.begin(), ids.end()), cases[i].expected) << cases[i].name;
  }
  try {
    refused.get();
    ADD_FAILURE() << "the poisonous request finished";
  } catch (const client::ClientError& e) {
    EXPECT_EQ(e.type(), "internal_error") << e.what();
    EXPECT_NE(std::string(e.what()).find("cannot swallow this"), std::string::npos) << e.what();
  }
  EXPECT_EQ(cluster.status().restarts, 2);
  client.close();
}

TEST(ClusterFaults, AnswersNonsense) {
  Faults faults;
  faults.after = [](int step, proto::StepOutput& out) {
    if (step % 20 == 5) out.set_step(out.step() + 7);
    if (step % 20 == 10) out.mutable_outputs()->Clear();
    if (step % 20 == 15 && out.outputs_size() > 0 && out.outputs(0).samples_size() > 0)
      out.mutable_outputs(0)->mutable_samples(0)->set_token_id(1 << 30);
    if (step % 20 == 19 && out.outputs_size() > 0)
      out.mutable_outputs(0)->add_samples()->set_seq_id(-5);
  };
  expect_recovery(faults, testing::golden_cluster_config("bart-tiny"), 4);
}

TEST(ClusterFaults, HangsInAStep) {
  Faults faults;
  faults.after = [&](int step, proto::StepOutput&) {
    if (step == 9) faults.block_until_aborted();
  };
  ClusterConfig config = testing::golden_cluster_config("bart-tiny");
  config.step_timeout = 0.5;
  expect_recovery(faults, config, 1);
}

TEST(ClusterFaults, FailsWhileLoading) {
  Faults faults;
  faults.on_load = [](int generation) {
    if (generation <= 2) throw std::runtime_error("no memory today");
  };
  expect_recovery(faults, testing::golden_cluster_config("bart-tiny"), 2);
  EXPECT_EQ(faults.generations, 3);
}

TEST(ClusterFaults, GivesUpInTheEnd) {
  Faults faults;
  faults.after = [](int, proto::StepOutput&) { throw CommunicatorError("never"); };
  ClusterConfig config = testing::golden_cluster_config("bart-tiny");
  config.max_restarts = 2;
  Cluster cluster(config, [&] { return std::make_unique<FaultyWorker>(faults); });
  auto client = client::connect_to(cluster, "test");
  const auto handle = client.submit(golden_cases("bart-tiny").front().request);
  try {
    handle.get();
    FAIL() << "the request cannot have finished";
  } catch (const client::ClientError& e) {
    EXPECT_EQ(e.type(), "unavailable_error") << e.what();
    EXPECT_NE(std::string(e.what()).find("never"), std::string::npos) << e.what();
  }
  EXPECT_EQ(faults.generations, 3);
  ASSERT_TRUE(wait_for(cluster, [](const auto& s) { return s.given_up.has_value(); }));
  EXPECT_FALSE(cluster.status().bad_input);
  client.close();
}

TEST(ClusterFaults, BadModelIsNotTriedAgain) {
  Faults faults;
  faults.on_load = [](int) { throw invalid_model("model.safetensors", "is broken"); };
  Cluster cluster(testing::golden_cluster_config("bart-tiny"),
                  [&] { return std::make_unique<FaultyWorker>(faults); });
  ASSERT_TRUE(wait_for(cluster, [](const auto& s) { return s.given_up.has_value(); }));
  EXPECT_TRUE(cluster.status().bad_input);
  EXPECT_NE(cluster.status().given_up->find("is broken"), std::string::npos);
  EXPECT_EQ(faults.generations, 1);
}

// --- Requests ------------------------------------------------------------------------------------

// HuggingFace's, while tokens are generated and workers fail; the client waits, or does not.
TEST(ClusterFaults, EmbeddingsAreComputedAgain) {
  const auto cases = golden_cases("bart-tiny");
  const auto embeddings = testing::golden_embeddings("bart-tiny");
  Faults faults;
  std::atomic<int> failures{0};
  faults.after = [&](int, proto::StepOutput& out) {
    const bool pools = std::any_of(out.outputs().begin(), out.outputs().end(),
                                   [](const auto& group) { return group.has_embedding(); });
    if (pools && failures < 3 && ++failures) throw CommunicatorError("the answer is lost");
  };
  Cluster cluster(testing::golden_cluster_config("bart-tiny"),
                  [&] { return std::make_unique<FaultyWorker>(faults); });
  auto client = client::connect_to(cluster, "test");
  const auto expect_near = [&](const std::vector<float>& got, const std::vector<double>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t k = 0; k < got.size(); ++k) ASSERT_NEAR(got[k], want[k], 1e-4);
  };
  std::vector<client::RequestHandle> handles;
  std::vector<std::vector<double>> expected;
  for (int round = 0; round < 10; ++round)
    for (const auto& e : embeddings) {
      const std::string pooling = std::vector{"mean", "cls", "last"}[round % 3];
      const auto source = client::Prompt::token_ids(e.ids);
      client::Request request;
      request.prompt = client::Prompt::pooled(source, pooling, round % 2 == 0);
      handles.push_back(client.submit(request));
      expected.push_back(e.pooled(pooling, round % 2 == 0));
    }
  expect_goldens(cluster, cases);
  for (size_t i = 0; i < handles.size(); ++i)
    expect_near(client::embedding_of(handles[i].get()), expected[i]);
  const auto source = client::Prompt::token_ids(embeddings[0].ids);
  expect_near(client.embed(source), embeddings[0].pooled("mean", true));
  EXPECT_THROW((void)client.embed(source, "max"), client::ClientError);
  EXPECT_EQ(faults.generations, 4);
  const auto info = client.server_info();
  EXPECT_EQ(info.num_requests(), 0);
  EXPECT_GT(info.replicas(0).stats().encoder_seconds(), 0);
  client.close();
}

TEST(Cluster, DrainFinishesWhatHasBegun) {
  const auto cases = golden_cases("bart-tiny");
  Cluster cluster(testing::golden_cluster_config("bart-tiny"), std::unique_ptr<GroupLauncher>());
  auto client = client::connect_to(cluster, "test");
  std::vector<client::RequestHandle> handles;
  for (const Case& c : cases) handles.push_back(client.submit(c.request));
  client.server_info();  // all have been accepted
  cluster.drain();
  for (size_t i = 0; i < cases.size(); ++i) {
    const auto output = handles[i].get();
    const auto& ids = output.outputs(0).token_ids();
    EXPECT_EQ(Tokens(ids.begin(), ids.end()), cases[i].expected);
  }
  try {
    client.submit(cases[0].request).get();
    ADD_FAILURE() << "accepted while draining";
  } catch (const client::ClientError& e) {
    EXPECT_EQ(e.type(), "unavailable_error");
  }
  EXPECT_TRUE(wait_for(cluster, [](const auto& s) { return s.drained; }));
  client.close();
}

TEST(Cluster, BadRequestsDisturbNobody) {
  const auto cases = golden_cases("bart-tiny");
  Cluster cluster(testing::golden_cluster_config("bart-tiny"), std::unique_ptr<GroupLauncher>());
  auto client = client::connect_to(cluster, "test");
  const std::pair<const char*, const char*> bad[] = {
      {R"({"prompt_token_ids": []})", "{}"},
      {R"({"prompt_token_ids": [99999999]})", "{}"},
      {R"("text")", R"({"temperature": "hot"})"},
      {R"({"prompt": 5})", "{}"},
      {R"(not json)", "{}"},
      {R"("text")", R"([1])"},
      {R"({"prompt_token_ids": [0, 5, 2]})", R"({"max_new_tokens": 100000000})"}};
  std::vector<client::RequestHandle> wrong;
  for (const auto& [prompt, params] : bad) {
    client::Request request;
    request.prompt = client::Prompt::raw_json(prompt);
    request.params_json = params;
    wrong.push_back(client.submit(request));
  }
  expect_goldens(cluster, cases);
  for (size_t i = 0; i < wrong.size(); ++i)
    EXPECT_THROW(wrong[i].get(), client::ClientError) << bad[i].first << " " << bad[i].second;
  const auto info = client.server_info();
  EXPECT_EQ(info.num_requests(), 0);
  EXPECT_EQ(info.replicas(0).stats().num_free_blocks(),
            info.replicas(0).stats().num_total_blocks());
  client.close();
}

TEST(Cluster, CancelledAndLateRequestsFreeEverything) {
  const auto cases = golden_cases("bart-tiny");
  Faults faults;  // slow enough that the requests are still running
  faults.after = [](int, proto::StepOutput&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  };
  Cluster cluster(testing::golden_cluster_config("bart-tiny"),
                  [&] { return std::make_unique<FaultyWorker>(faults); });
  auto client = client::connect_to(cluster, "test");
  std::vector<client::RequestHandle> handles;
  for (int i = 0; i < 20; ++i) {
    client::Request request = cases[0].request;
    request.params_json = R"({"max_new_tokens": 40, "ignore_eos": true, "do_sample": false})";
    if (i % 2 == 0) request.timeout = 0.05;
    handles.push_back(client.submit(request));
  }
  for (int i = 1; i < 20; i += 2) handles[static_cast<size_t>(i)].cancel();
  for (int i = 0; i < 20; ++i) {
    try {
      handles[static_cast<size_t>(i)].get();
      ADD_FAILURE() << "request " << i << " finished";
    } catch (const client::ClientError& e) {
      EXPECT_EQ(e.type(), i % 2 == 0 ? "timeout_error" : "cancelled") << e.what();
    }
  }
  expect_goldens(cluster, {cases[0], cases[1]});
  const auto info = client.server_info();
  EXPECT_EQ(info.num_requests(), 0);
  client.close();
}

}  // namespace
}  // namespace tandem::actors
