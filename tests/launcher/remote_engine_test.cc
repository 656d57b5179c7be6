// RemoteEngine: a server's engine as any other.
#include "launcher/remote_engine.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tests/support/engine/fake_engine.h"
#include "tests/support/engine/listener.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/files/files.h"

namespace tandem::launcher {
namespace {

using namespace std::chrono_literals;
using testing::Listener;

class RemoteEngineTest : public ::testing::Test {
 protected:
  RemoteEngineTest() {
    ::setenv("XDG_RUNTIME_DIR", directory_.path().c_str(), 1);
    server = std::make_unique<test::FakeEngineServer>();
    engine = std::make_unique<RemoteEngine>(client::Client::connect({.address = server->address}));
  }
  static EngineApi::Request request(const std::string& id, const std::string& text) {
    EngineApi::Request r;
    r.id = id;
    r.prompt.mutable_encoder()->set_text(text);
    return r;
  }
  static bool eventually(const std::function<bool()>& condition) {
    for (int i = 0; i < 2000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
    return condition();
  }

  test::TempDir directory_;
  std::unique_ptr<test::FakeEngineServer> server;
  std::unique_ptr<RemoteEngine> engine;
};

TEST_F(RemoteEngineTest, AnswersAsTheServer) {
  Listener heard, wrong;
  engine->submit(request("x", "count 40"), heard.callback());
  engine->submit(request("y", "fail"), wrong.callback());
  ASSERT_TRUE(heard.ends());
  EXPECT_EQ(heard.tokens().size(), 40u);
  ASSERT_TRUE(wrong.ends());
  EXPECT_EQ(wrong.error(), "invalid_request_error");
  EXPECT_EQ(wrong.whole_error().param(), "prompt");
  EXPECT_EQ(submit_whole(*engine, request("z", "count 3")).get().outputs(0).text(), "0 1 2 ");
}

TEST_F(RemoteEngineTest, CancelEndsIt) {
  Listener heard, twice;
  engine->submit(request("x", "hang"), heard.callback());
  engine->submit(request("x", "hang"), twice.callback());
  ASSERT_TRUE(twice.ends());
  EXPECT_EQ(twice.error(), "invalid_request_error");
  EXPECT_FALSE(heard.ended());
  engine->cancel("x");
  engine->cancel("nobody");
  ASSERT_TRUE(heard.ends());
  EXPECT_EQ(heard.error(), "cancelled");
  EXPECT_TRUE(eventually([&] { return server->counters->cancels > 0; }));
}

TEST_F(RemoteEngineTest, SaysWhatTheServerSaysOfItself) {
  EXPECT_TRUE(eventually([&] { return engine->status().info.model() == "fake"; }));
  EXPECT_FALSE(engine->status().ready) << "it has no workers";
}

TEST_F(RemoteEngineTest, SoundIsSentAsBytes) {
  EngineApi::Request r = request("x", "");
  r.prompt.mutable_encoder()->set_field("audio");
  r.prompt.mutable_encoder()->mutable_sound();
  r.sound = MediaSource::of_bytes("sound", "audio");
  Listener heard;
  engine->submit(std::move(r), heard.callback());
  EXPECT_TRUE(eventually([&] { return server->counters->submits == 1; }));
  engine->cancel("x");
  EXPECT_TRUE(heard.ends());
}

TEST_F(RemoteEngineTest, EverythingEndsWithIt) {
  Listener heard;
  engine->submit(request("x", "hang"), heard.callback());
  engine.reset();
  EXPECT_TRUE(heard.ended());
  EXPECT_EQ(heard.error(), "connection_error");
}

}  // namespace
}  // namespace tandem::launcher
