// CommandRequests: what a command gets of an engine, whatever the engine's threads do.
#include "launcher/command_requests.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/files/files.h"

namespace tandem::launcher {
namespace {

// Says what the test says.
class ScriptedEngine final : public EngineApi {
 public:
  struct Submitted {
    Request request;
    OnChunk on_chunk;
  };
  void submit(Request request, OnChunk on_chunk) override {
    submitted.push_back({std::move(request), std::move(on_chunk)});
  }
  void cancel(const std::string&) override {}
  EngineStatus status() override { return {}; }

  void say(size_t i, const std::string& text, bool last) {
    proto::RequestChunk chunk;
    auto& news = *chunk.add_outputs();
    news.set_text(text);
    news.set_text_offset(static_cast<int64_t>(texts_[i].size()));
    texts_[i] += text;
    chunk.set_finished(last);
    submitted[i].on_chunk(std::move(chunk));
  }
  void read(size_t i, double done, double seconds) {
    proto::RequestChunk chunk;
    chunk.mutable_progress()->set_seconds_done(done);
    chunk.mutable_progress()->set_seconds(seconds);
    submitted[i].on_chunk(std::move(chunk));
  }
  void fail(size_t i, const std::string& type) {
    proto::RequestChunk chunk;
    chunk.mutable_error()->set_type(type);
    chunk.mutable_error()->set_message("so it is");
    chunk.set_finished(true);
    submitted[i].on_chunk(std::move(chunk));
  }

  std::vector<Submitted> submitted;

 private:
  std::map<size_t, std::string> texts_;
};

JsonRequest text(const std::string& prompt) {
  JsonRequest request;
  request.prompt.mutable_encoder()->set_text(prompt);
  return request;
}

JsonRequest file(const std::string& path) {
  JsonRequest request;
  request.audio = path;
  return request;
}

TEST(CommandRequests, PutsChunksTogether) {
  ScriptedEngine engine;
  CommandRequests requests(engine);
  requests.submit(7, text("a"));
  requests.submit(9, text("b"));
  ASSERT_EQ(engine.submitted.size(), 2u);
  EXPECT_NE(engine.submitted[0].request.id, engine.submitted[1].request.id);
  EXPECT_TRUE(requests.poll().empty());
  engine.say(0, "one ", false);
  engine.fail(1, "overloaded_error");
  auto finished = requests.poll();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].number, 9u);
  EXPECT_EQ(finished[0].error->kind(), ErrorKind::kOverloaded);
  engine.say(0, "two", true);
  finished = requests.poll();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].number, 7u);
  EXPECT_FALSE(finished[0].error);
  EXPECT_EQ(finished[0].output.outputs(0).text(), "one two");
}

TEST(CommandRequests, HaveTheCommandsAdapterUnlessTheyNameOne) {
  ScriptedEngine engine;
  CommandRequests with(engine, "news"), without(engine);
  JsonRequest named = text("a");
  named.options.set_lora("legal");
  with.submit(0, text("a"));
  with.submit(1, std::move(named));
  without.submit(0, text("a"));
  ASSERT_EQ(engine.submitted.size(), 3u);
  EXPECT_EQ(engine.submitted[0].request.options.lora(), "news");
  EXPECT_EQ(engine.submitted[1].request.options.lora(), "legal");
  EXPECT_FALSE(engine.submitted[2].request.options.has_lora());
}

TEST(CommandRequests, StreamsBeforeTheEnd) {
  ScriptedEngine engine;
  CommandRequests requests(engine);
  std::string heard;
  requests.stream_to([&](uint64_t number, const proto::RequestChunk& chunk, auto) {
    heard += std::to_string(number) + ":" + chunk.outputs(0).text() + (chunk.finished() ? "." : "");
  });
  requests.submit(3, text("a"));
  engine.say(0, "x", false);
  engine.say(0, "y", true);
  EXPECT_EQ(requests.poll().size(), 1u);
  EXPECT_EQ(heard, "3:x3:y.");
}

// A callback may come when nobody polls any more.
TEST(CommandRequests, MayEndBeforeItsRequests) {
  ScriptedEngine engine;
  {
    CommandRequests requests(engine);
    requests.submit(1, text("a"));
  }
  engine.say(0, "x", true);
}

TEST(CommandRequests, OpensFewFilesAtATime) {
  constexpr size_t kMost = 64;
  const test::TempDir dir;
  const std::string path = dir.write("sound.wav", "sound").string();
  ScriptedEngine engine;
  CommandRequests requests(engine);
  for (size_t i = 0; i < kMost + 2; ++i) requests.submit(i, file(path));
  EXPECT_TRUE(engine.submitted.empty());
  EXPECT_TRUE(requests.poll().empty());
  ASSERT_EQ(engine.submitted.size(), kMost);
  EXPECT_EQ(engine.submitted[0].request.sound->size(), 5u);
  EXPECT_TRUE(engine.submitted[0].request.prompt.encoder().has_sound());
  engine.read(0, 1, 4);
  EXPECT_TRUE(requests.poll().empty());  // takes the news,
  EXPECT_TRUE(requests.poll().empty());  // and sends one more
  EXPECT_EQ(engine.submitted.size(), kMost + 1);
  EXPECT_EQ(requests.audio_seconds().done, 1);
  EXPECT_EQ(requests.audio_seconds().total, 4);
  // The others are taken to be as long.
  EXPECT_EQ(requests.audio_seconds().expected, 4.0 * (kMost + 2));
  engine.say(0, "said", true);
  const auto finished = requests.poll();
  ASSERT_EQ(finished.size(), 1u);
  EXPECT_EQ(finished[0].seconds, 4);
  EXPECT_EQ(requests.audio_seconds().done, 4);
}

TEST(CommandRequests, AFileThatIsNotThereFailsItsRequest) {
  ScriptedEngine engine;
  CommandRequests requests(engine);
  requests.submit(0, file("/nonexistent.wav"));
  const auto finished = requests.poll();
  ASSERT_EQ(finished.size(), 1u);
  ASSERT_TRUE(finished[0].error);
  EXPECT_EQ(finished[0].error->param(), "audio");
  EXPECT_TRUE(engine.submitted.empty());
}

}  // namespace
}  // namespace tandem::launcher
