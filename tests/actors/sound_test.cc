// Sound through a cluster in this process: whatever the ranks are and whatever becomes of them, it
// is what the synchronous engine makes of it; and it can be ended at any time.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "runtime/engine/llm_engine.h"
#include "runtime/execution/worker.h"
#include "tests/support/engine/cluster_client.h"
#include "tests/support/engine/sound_prompts.h"
#include "tests/support/goldens/golden_cluster_config.h"
#include "tests/support/scheduling/immediate.h"

namespace tandem::actors {
namespace {

using testing::RandomSpeech;
using testing::said;
using testing::speech_params;

ClusterConfig speech_cluster(const std::filesystem::path& model) {
  ClusterConfig config;
  config.engine = testing::speech_config(model);
  config.max_restarts = 1000;
  return config;
}

// Throws now and then, if it is asked to; and may take its time.
class FallibleWorker final : public Immediate<Worker> {
 public:
  FallibleWorker(std::atomic<int>& steps, int every, std::chrono::milliseconds pause = {})
      : steps_(steps), every_(every), pause_(pause) {}
  proto::WorkerLoaded load(const proto::WorkerSetup& setup, const LoadProgress& progress) override {
    return worker_->load(setup, progress);
  }
  void start(const proto::WorkerStart& start) override { worker_->start(start); }
  proto::StepOutput execute(const proto::StepInput& step) override {
    std::this_thread::sleep_for(pause_);
    if (++steps_ % every_ == 0) throw CommunicatorError("a step fails");
    return worker_->execute(step);
  }
  void abort() override { worker_->abort(); }

 private:
  std::atomic<int>& steps_;
  int every_;
  std::chrono::milliseconds pause_;
  std::unique_ptr<Worker> worker_ = make_model_worker([](const proto::WorkerSetup&) {
    return std::shared_ptr<Communicator>(make_local_communicator());
  });
};

struct Sounds {
  std::vector<std::string> files, said;

  explicit Sounds(const std::filesystem::path& model) {
    LLMEngine engine(testing::speech_config(model));
    for (int i = 0; i < 10; ++i) {
      files.push_back(RandomSpeech::sound(0.5 + i, static_cast<unsigned>(i)));
      engine.add_request(std::to_string(i), testing::sound_prompt(files.back(), speech_params(i)),
                         proto::GenerationOptions());
    }
    said.resize(files.size());
    while (engine.has_unfinished_requests())
      for (const auto& output : engine.step())
        said[std::stoul(output.request_id())] = testing::said(output);
  }
};

class SoundInClusters : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    model_ = new RandomSpeech;
    sounds_ = new Sounds(model_->path());
  }
  static void TearDownTestSuite() {
    delete sounds_;
    delete model_;
  }
  static client::Request request(size_t i) {
    client::Request out;
    out.prompt = client::Prompt::sound(sounds_->files[i], speech_params(static_cast<int>(i)));
    return out;
  }
  // All at once, twice.
  static void expect_all_said(Cluster& cluster) {
    auto client = client::connect_to(cluster, "test");
    std::vector<client::RequestHandle> handles;
    for (size_t i = 0; i < 2 * sounds_->files.size(); ++i)
      handles.push_back(client.submit(request(i % sounds_->files.size())));
    for (size_t i = 0; i < handles.size(); ++i) {
      const size_t which = i % sounds_->files.size();
      try {
        EXPECT_EQ(said(handles[i].get()), sounds_->said[which]) << which;
      } catch (const client::ClientError& e) {
        ADD_FAILURE() << which << ": " << e.type() << ": " << e.what();
      }
    }
    EXPECT_EQ(client.server_info().num_requests(), 0);
    client.close();
  }

  static RandomSpeech* model_;
  static Sounds* sounds_;
};
RandomSpeech* SoundInClusters::model_ = nullptr;
Sounds* SoundInClusters::sounds_ = nullptr;

TEST_F(SoundInClusters, IsSaidAlikeOnAnyRanks) {
  for (const auto& [tp, dp] : {std::pair{1, 1}, {2, 1}, {2, 2}}) {
    SCOPED_TRACE("tp " + std::to_string(tp) + " dp " + std::to_string(dp));
    ClusterConfig config = speech_cluster(model_->path());
    config.tensor_parallel_size = tp;
    config.data_parallel_size = dp;
    Cluster cluster(config, std::unique_ptr<GroupLauncher>());
    expect_all_said(cluster);
    EXPECT_EQ(cluster.status().restarts, 0);
  }
}

TEST_F(SoundInClusters, SurvivesItsWorkers) {
  std::atomic<int> steps{0};
  Cluster cluster(speech_cluster(model_->path()),
                  [&] { return std::make_unique<FallibleWorker>(steps, 23); });
  expect_all_said(cluster);
  EXPECT_GE(cluster.status().restarts, 3);
}

TEST_F(SoundInClusters, ComesBackAsItIsSaid) {
  Cluster cluster(speech_cluster(model_->path()), std::unique_ptr<GroupLauncher>());
  auto client = client::connect_to(cluster, "test");
  auto handle = client.submit(request(9));
  proto::RequestOutput heard;
  double done = 0;
  while (const auto chunk = handle.next_chunk()) {
    append_chunk(heard, *chunk);
    ASSERT_TRUE(chunk->has_progress());
    EXPECT_GE(chunk->progress().seconds_done(), done);
    done = chunk->progress().seconds_done();
    EXPECT_DOUBLE_EQ(chunk->progress().seconds(), 9.5);
  }
  EXPECT_EQ(said(heard), sounds_->said[9]);
  EXPECT_DOUBLE_EQ(done, 9.5);
  client.close();
}

// 300 windows and more, of several steps each.
TEST_F(SoundInClusters, EndsWhenItIsTold) {
  using namespace std::chrono_literals;
  std::atomic<int> steps{0};
  Cluster cluster(speech_cluster(model_->path()),
                  [&] { return std::make_unique<FallibleWorker>(steps, 1 << 30, 5ms); });
  auto client = client::connect_to(cluster, "test");
  client::Request lengthy;
  lengthy.prompt = client::Prompt::sound(RandomSpeech::sound(300, 1));
  auto cancelled = client.submit(lengthy);
  ASSERT_TRUE(cancelled.next_chunk());
  while (steps < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  cancelled.cancel();
  EXPECT_THROW(cancelled.get(), client::ClientError);
  lengthy.timeout = 0.5;
  try {
    client.submit(lengthy).get();
    ADD_FAILURE() << "300 seconds of sound in half of one";
  } catch (const client::ClientError& e) {
    EXPECT_EQ(e.type(), "timeout_error");
  }
  const auto idle = [&] { return client.server_info().num_requests() == 0; };
  for (int i = 0; i < 6000 && !idle(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_TRUE(idle());
  client.close();
}

TEST_F(SoundInClusters, WhatIsNoneIsRefused) {
  Cluster cluster(speech_cluster(model_->path()), std::unique_ptr<GroupLauncher>());
  auto client = client::connect_to(cluster, "test");
  const auto refused = [&](const client::Prompt& prompt, const std::string& param) {
    client::Request one;
    one.prompt = prompt;
    try {
      client.submit(one).get();
      ADD_FAILURE() << param << " was taken";
    } catch (const client::ClientError& e) {
      EXPECT_EQ(e.type(), "invalid_request_error") << e.what();
      EXPECT_EQ(e.param(), param) << e.what();
    }
  };
  refused(client::Prompt::sound("no sound"), "prompt.sound");
  // A file that is cut is heard as far as it goes, which is said.
  client::Request cut;
  cut.prompt = client::Prompt::sound(sounds_->files[3].substr(0, sounds_->files[3].size() / 2));
  EXPECT_GT(client.submit(cut).get().warnings_size(), 0);
  proto::SpeechParams params;
  params.set_task("sing");
  refused(client::Prompt::sound(sounds_->files[3], params), "task");
  proto::Prompt empty;
  empty.mutable_encoder()->set_field("prompt.sound");
  empty.mutable_encoder()->mutable_sound();
  refused(client::Prompt(empty), "prompt.sound");
  EXPECT_THROW(client::Prompt::sound(""), client::ClientError);
  EXPECT_THROW(client::Prompt::sound_file("/no/such/file"), client::ClientError);
  EXPECT_THROW(client::Prompt::sound_file("/dev/zero"), client::ClientError);
  expect_all_said(cluster);
  client.close();
}

TEST_F(SoundInClusters, IsNotForOthers) {
  Cluster cluster(testing::golden_cluster_config("bart-tiny"), std::unique_ptr<GroupLauncher>());
  auto client = client::connect_to(cluster, "test");
  try {
    client.submit(request(1)).get();
    ADD_FAILURE() << "BART hears";
  } catch (const client::ClientError& e) {
    EXPECT_EQ(e.type(), "invalid_request_error");
    EXPECT_EQ(e.param(), "prompt.sound");
  }
  client.close();
}

}  // namespace
}  // namespace tandem::actors
