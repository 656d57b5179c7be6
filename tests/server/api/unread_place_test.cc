// Requests that wait before they are parsed.
#include "server/api/unread_place.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/support/network/fake_http.h"

namespace tandem::server {
namespace {

using test::FakeServer;

constexpr const char* kSmall = R"({"prompt": "a text", "max_tokens": 5})";

TEST(UnreadPlace, WaitsForItsTurnAndIsSubmittedUnderItsId) {
  FakeServer s;
  s.engine.crowded = true;
  const auto e = s.ask("POST", "/v1/completions", kSmall);
  EXPECT_TRUE(s.engine.requests.empty());
  ASSERT_EQ(s.engine.unread.size(), 1u);
  EXPECT_EQ(s.context.prompts_under_way, 0);
  const std::string id = s.engine.call();
  EXPECT_TRUE(s.engine.requests.empty()) << "not on the engine's thread";
  e->run_posted();
  ASSERT_EQ(s.engine.requests.size(), 1u);
  EXPECT_EQ(s.engine.requests[0].id, id);
  EXPECT_EQ(s.context.prompts_under_way, 1);
  s.engine.say(0, "yes", {5}, "stop");
  e->run_posted();
  EXPECT_EQ(e->status(), 200);
  EXPECT_TRUE(s.engine.left.empty());
}

// What metrics tell of it includes its time in the line.
TEST(UnreadPlace, ItsTimeIsThatOfItsClient) {
  FakeServer s;
  s.engine.crowded = true;
  const auto e = s.ask("POST", "/v1/completions", kSmall);
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  s.engine.call();
  e->run_posted();
  s.engine.say(0, "yes", {5}, "stop");
  e->run_posted();
  const std::string text = s.ask("GET", "/metrics")->head->body;
  const std::string name = "e2e_request_latency_seconds_sum";
  const size_t at = text.find(name);
  ASSERT_NE(at, std::string::npos);
  EXPECT_GE(std::stod(text.substr(text.find(' ', at))), 0.06);
}

TEST(UnreadPlace, OfTheFirstOfSeveralPrompts) {
  FakeServer s;
  s.engine.crowded = true;
  const auto e = s.ask("POST", "/v1/completions", R"({"prompt": ["a", "b"]})");
  const std::string id = s.engine.call();
  e->run_posted();
  ASSERT_EQ(s.engine.requests.size(), 2u);
  EXPECT_EQ(s.engine.requests[0].id, id);
  EXPECT_NE(s.engine.requests[1].id, id);
  EXPECT_EQ(s.engine.requests[1].batch, id);
}

TEST(UnreadPlace, WhoGoesIsNeverRead) {
  FakeServer s;
  s.engine.crowded = true;
  const auto waits = s.ask("POST", "/v1/completions", kSmall);
  EXPECT_EQ(s.context.unread, 1);  // what /status and metrics show as under way
  waits->gone();
  EXPECT_EQ(s.context.unread, 0);
  EXPECT_EQ(s.engine.left.size(), 1u);
  EXPECT_TRUE(s.engine.unread.empty());
  // When it has just been called.
  const auto called = s.ask("POST", "/v1/completions", kSmall);
  s.engine.call();
  called->gone();
  called->run_posted();
  EXPECT_EQ(s.engine.left.size(), 2u);
  // Or submitted: then its request is cancelled.
  const auto submitted = s.ask("POST", "/v1/completions", kSmall);
  const std::string id = s.engine.call();
  submitted->run_posted();
  EXPECT_EQ(s.context.unread, 0);
  submitted->gone();
  EXPECT_EQ(s.engine.cancelled, std::vector<std::string>{id});
  EXPECT_EQ(s.engine.left.size(), 2u);
  EXPECT_EQ(s.engine.requests.size(), 1u);
}

TEST(UnreadPlace, IsGivenUpByWhatTurnsOutToBeWrong) {
  FakeServer s;
  s.engine.crowded = true;
  const auto e = s.ask("POST", "/v1/completions", R"({"prompt": 5.5})");
  EXPECT_EQ(e->status(), 0);
  const std::string id = s.engine.call();
  e->run_posted();
  EXPECT_EQ(e->status(), 400);
  e->gone = nullptr;  // the answer has been sent
  EXPECT_EQ(s.engine.left, std::vector<std::string>{id});
}

TEST(UnreadPlace, WhatIsReadAtOnce) {
  FakeServer s;
  s.engine.crowded = true;
  const std::string large = R"({"prompt": ")" + std::string(20'000, 'a') + R"("})";
  for (const std::string& body : {std::string(R"({"prompt": "a", "priority": 1})"),
                                  std::string(R"({"prompt": "a", "timeout": 9})"),
                                  std::string(R"({"prompt": "a", "request_id": "x"})"),
                                  std::string(R"({"prompt": "a", "t\u0069meout": 9})"), large})
    s.ask("POST", "/v1/completions", body);
  EXPECT_EQ(s.engine.requests.size(), 5u);
  EXPECT_EQ(s.ask("POST", "/v1/completions", "no JSON")->status(), 400);
  EXPECT_EQ(s.ask("GET", "/health")->status(), 200);
  EXPECT_EQ(s.ask("POST", "/tokenize", R"({"prompt": "a"})")->status(), 200)
      << "the engine has no part in it";
  s.config.request_timeout = 5;
  s.ask("POST", "/v1/completions", kSmall);
  EXPECT_EQ(s.engine.requests.size(), 6u);
  EXPECT_TRUE(s.engine.unread.empty());
}

}  // namespace
}  // namespace tandem::server
