// Sound in an EngineCore: one request to its client, as many as it has windows to the replicas.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/engine/speech_driver.h"

namespace tandem::engine_core_speech_test {
namespace {

using namespace testing_support;

constexpr ClientId kHere = 0, kRemote = 1;

class CoreSpeech : public ::testing::Test, public SpeechDriver {
 protected:
  explicit CoreSpeech(const EngineCoreConfig& config = {}) : SpeechDriver(config) {
    core().client_connected(kHere, ClientKind::kDirect);
    core().client_connected(kRemote);
    up();
  }
  // Until the client has so many segments of its first request.
  const proto::RequestOutput& hear(ClientId client, int segments) {
    proto::RequestOutput& out = heard_[client];
    while (out.outputs_size() == 0 || out.outputs(0).segments_size() < segments) {
      work(1);
      for (auto& chunk : chunks(client)) gather(out, chunk);
    }
    return out;
  }
  std::map<ClientId, proto::RequestOutput> heard_;
};

TEST_F(CoreSpeech, ComesBackWindowByWindow) {
  const FakeSound sound{400, 3};
  submit_sound(kHere, "a", sound);
  proto::RequestOutput out;
  std::vector<double> done;
  int with_text = 0;
  while (!out.finished()) {
    for (auto& chunk : chunks(kHere)) {
      ASSERT_FALSE(chunk.has_error()) << chunk.error().message();
      EXPECT_EQ(chunk.request_id(), "a");
      EXPECT_DOUBLE_EQ(chunk.progress().seconds(), 4);
      done.push_back(chunk.progress().seconds_done());
      for (const auto& news : chunk.outputs()) with_text += !news.text().empty();
      gather(out, chunk);
    }
    if (!out.finished()) work(1);
  }
  EXPECT_EQ(essence(out), essence(undisturbed(sound, tokenizer)));
  EXPECT_GE(with_text, 4);
  EXPECT_EQ(done.front(), 0);  // how long it is, at once
  EXPECT_EQ(done.back(), 4);
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_TRUE(out.has_metrics());
  EXPECT_FALSE(out.language().empty());
  EXPECT_EQ(core().num_requests(), 0u);
  EXPECT_TRUE(core().idle());
}

TEST_F(CoreSpeech, ChunksAreComputedTogether) {
  const FakeSound sound{100, 5, 6};
  submit_sound(kHere, "a", sound);
  EXPECT_EQ(to_prepare.size(), 6u);
  proto::RequestOutput out;
  work();
  for (auto& chunk : chunks(kHere)) gather(out, chunk);
  EXPECT_EQ(essence(out), essence(undisturbed(sound, tokenizer)));
}

// Others come in and go beside it, and it counts once.
TEST_F(CoreSpeech, IsOneRequest) {
  submit_sound(kHere, "a", {100, 5, 6});
  EXPECT_EQ(core().num_requests(), 1u);
  EXPECT_EQ(core().num_unfinished(), 1u);
  core().drain();
  EXPECT_FALSE(core().idle());
  work();
  EXPECT_TRUE(chunks(kHere).back().finished());
  EXPECT_EQ(core().num_unfinished(), 0u);
}

TEST_F(CoreSpeech, CancelledInTheMiddle) {
  submit_sound(kHere, "a", {900, 7});
  hear(kHere, 2);
  while (running.empty()) work(1);
  told();
  core().cancel("a", now);
  core().check_integrity();
  EXPECT_EQ(told().size(), 1u);  // its part is aborted
  EXPECT_TRUE(running.empty());
  EXPECT_EQ(core().num_requests(), 0u);
  // Also while a part is prepared.
  submit_sound(kHere, "b", {900, 7});
  ASSERT_EQ(to_prepare.size(), 1u);
  core().cancel("b", now);
  prepare_one();
  EXPECT_TRUE(running.empty());
  EXPECT_TRUE(core().idle());
}

TEST_F(CoreSpeech, TimedOutInTheMiddle) {
  submit_sound(kHere, "a", {900, 7}, /*timeout=*/5);
  hear(kHere, 2);
  tick(4);
  hear(kHere, 3);
  tick(2);
  EXPECT_EQ(chunks(kHere).back().error().type(), "timeout_error");
  EXPECT_TRUE(running.empty());
  EXPECT_EQ(core().num_requests(), 0u);
}

TEST_F(CoreSpeech, ResumedInTheMiddle) {
  const FakeSound sound{900, 11};
  submit_sound(kRemote, "a", sound);
  proto::RequestOutput out = hear(kRemote, 3);
  core().client_gone(kRemote, now);
  work(40);  // it goes on
  tick(1);
  core().client_connected(5);
  resume(5, "a", out.outputs(0).token_ids_size(), static_cast<int>(out.outputs(0).text().size()));
  work();
  for (auto& chunk : chunks(5)) gather(out, chunk);
  acknowledge(5);
  for (auto& chunk : chunks(5)) gather(out, chunk);
  EXPECT_EQ(essence(out), essence(undisturbed(sound, tokenizer)));
  acknowledge(5);
  EXPECT_EQ(core().num_requests(), 0u);
}

TEST_F(CoreSpeech, ItsClientIsGone) {
  submit_sound(kRemote, "a", {900, 11});
  hear(kRemote, 2);
  core().client_gone(kRemote, now);
  tick(29);
  EXPECT_EQ(core().num_requests(), 1u);
  tick(2);
  EXPECT_EQ(core().num_requests(), 0u);
  EXPECT_TRUE(running.empty());
}

TEST_F(CoreSpeech, PartsAreNobodysToNameOrEnd) {
  submit_sound(kHere, "a", {900, 11});
  hear(kHere, 1);
  while (running.empty()) work(1);
  const std::string part = running.begin()->first;
  core().cancel(part, now);
  EXPECT_EQ(running.size(), 1u);
  proto::ResumeRequest resume;
  resume.set_request_id(part);
  EXPECT_THROW(core().resume(kRemote, resume, now), InputError);
  EXPECT_THROW(reserve(kRemote, part), InputError);
  // The other way round it takes another name.
  submit(kRemote, "b#0");
  submit_sound(kHere, "b", {100, 1});
  EXPECT_EQ(to_prepare.back().request_id(), "b#1");
}

TEST_F(CoreSpeech, APartThatFailsEndsIt) {
  submit_sound(kHere, "a", {100, 5, 6});
  const std::string part = to_prepare[2].request_id();
  core().failed(part, invalid_request("max_length", "is wrong"), now);
  core().check_integrity();
  const auto error = chunks(kHere).back().error();
  EXPECT_EQ(error.type(), "invalid_request_error");
  EXPECT_EQ(error.param(), "max_length");
  EXPECT_EQ(core().num_requests(), 0u);
  work();
}

TEST_F(CoreSpeech, WorkersThatDieTakeNothing) {
  const FakeSound sound{900, 13};
  submit_sound(kHere, "a", sound);
  hear(kHere, 2);
  proto::RequestOutput& out = heard_[kHere];
  for (int i = 0; i < 5; ++i) {
    work(3);
    running.clear();
    down(0, /*crashed=*/false);
    work(3);
    up();
  }
  work();
  for (auto& chunk : chunks(kHere)) gather(out, chunk);
  EXPECT_EQ(essence(out), essence(undisturbed(sound, tokenizer)));
}

TEST_F(CoreSpeech, APoisonousWindowEndsIt) {
  submit_sound(kHere, "a", {900, 13});
  hear(kHere, 2);
  for (int i = 0; i < 2; ++i) {
    while (running.empty()) work(1);
    const std::string part = running.begin()->first;
    running.clear();
    down(0, /*crashed=*/true, {part});
    up();
  }
  EXPECT_EQ(chunks(kHere).back().error().type(), "internal_error");
  EXPECT_EQ(core().num_requests(), 0u);
}

TEST_F(CoreSpeech, EndsWithTheWorkers) {
  submit_sound(kHere, "a", {900, 13});
  submit_sound(kHere, "b", {100, 5, 6});
  for (int i = 0; i < 4; ++i) prepare_one();
  core().give_up("all is lost", now);
  core().check_integrity();
  work();
  EXPECT_EQ(core().num_requests(), 0u);
  for (const auto& chunk : chunks(kHere))
    if (chunk.finished()) {
      EXPECT_EQ(chunk.error().type(), "unavailable_error");
    }
}

TEST_F(CoreSpeech, WithoutSoundItIsWrong) {
  submit_sound(kHere, "a", {0, 1});
  EXPECT_EQ(error(kHere), "invalid_request_error");
}

class CoreSpeechLimits : public CoreSpeech {
 protected:
  static EngineCoreConfig config() {
    EngineCoreConfig out;
    out.max_requests = 2;
    out.max_sound_bytes = 100;
    out.max_sound_seconds = 10;
    return out;
  }
  CoreSpeechLimits() : CoreSpeech(config()) {}
  void reserve_bytes(const std::string& id, size_t bytes) {
    proto::SubmitRequest submit;
    submit.set_request_id(id);
    submit.mutable_prompt()->mutable_encoder()->mutable_sound()->set_file(std::string(bytes, 'x'));
    core().reserve(kHere, submit, now);
    core().check_integrity();
  }
};

// Its parts, many more than the engine takes, are never refused.
TEST_F(CoreSpeechLimits, APartIsNeverRefused) {
  const FakeSound sound{100, 5, 20};
  submit_sound(kHere, "a", sound);
  EXPECT_EQ(to_prepare.size(), 20u);
  submit(kHere, "b");
  EXPECT_THROW(reserve(kHere, "c"), InputError);
  core().cancel("b", now);
  running.erase("b");
  now += 100;  // whoever waits is late
  proto::RequestOutput out;
  work();
  for (auto& chunk : chunks(kHere))
    if (chunk.request_id() == "a") gather(out, chunk);
  EXPECT_EQ(essence(out), essence(undisturbed(sound, tokenizer)));
}

TEST_F(CoreSpeechLimits, FilesThatWaitAreBounded) {
  reserve_bytes("a", 1000);  // one is taken in any case
  EXPECT_THROW(reserve_bytes("b", 1), OverloadError);
  EXPECT_TRUE(core().awaits("a"));
  core().cancel("a", now);
  EXPECT_FALSE(core().awaits("a"));
  EXPECT_THROW(reserve_bytes("b", 1), OverloadError);  // its bytes are there still
  core().failed("a", invalid_request("a", "is gone"), now);
  reserve_bytes("b", 60);
  reserve_bytes("c", 40);
  core().failed("b", invalid_request("b", "is wrong"), now);
  core().check_integrity();
}

TEST_F(CoreSpeechLimits, SoundUnderWayIsBounded) {
  EXPECT_TRUE(core().takes_sound());
  submit_sound(kHere, "a", {900, 1});
  EXPECT_TRUE(core().takes_sound());
  submit_sound(kHere, "b", {200, 1});
  EXPECT_FALSE(core().takes_sound());
  core().cancel("a", now);
  EXPECT_TRUE(core().takes_sound());
  work();
  EXPECT_TRUE(core().takes_sound());
}

}  // namespace
}  // namespace tandem::engine_core_speech_test
