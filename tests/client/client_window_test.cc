// ClientCore's own queue: no more at the server than may be, and what it refuses is sent again.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/client_core.h"

namespace tandem::client::client_window_test {
namespace {

struct WindowSink : ClientOutbox {
  void send(proto::ClientMessage message) override {
    if (message.has_submit()) submitted.push_back(message.submit().request_id());
  }
  void deliver(Delivery delivery) override {
    for (StreamNews& news : delivery.streams)
      if (news.finished) ended.emplace_back(news.stream, news.error ? news.error->type() : "");
  }
  void drop_connection(const std::string& reason) override { FAIL() << reason; }
  std::vector<std::string> take() { return std::exchange(submitted, {}); }
  std::vector<std::string> submitted;
  std::vector<std::pair<StreamKey, std::string>> ended;
};

proto::SubmitRequest submission(int number, double timeout = 0) {
  proto::SubmitRequest request;
  request.set_request_id(std::to_string(number));
  request.mutable_prompt()->mutable_encoder()->set_text("x");
  request.set_timeout(timeout);
  return request;
}

class ClientWindowTest : public ::testing::Test {
 protected:
  ClientWindowTest() { core.connected(1, now); }
  void submit(int first, int last, double timeout = 0) {
    for (int i = first; i <= last; ++i) core.submit(i, submission(i, timeout), now);
    core.check_integrity();
  }
  void finish(const std::string& id) {
    proto::ServerMessage message;
    message.set_number(++numbers);
    message.add_chunks()->set_request_id(id);
    message.mutable_chunks(0)->set_finished(true);
    core.on_message(1, message, now);
    core.consumed(1, numbers);
    core.check_integrity();
  }
  void refuse(const std::string& id, double retry_after, const std::string& param = "") {
    proto::ServerMessage message;
    message.add_chunks()->set_request_id(id);
    proto::Error& error = *message.mutable_chunks(0)->mutable_error();
    error.set_type("overloaded_error");
    error.set_retry_after(retry_after);
    error.set_param(param);
    core.on_message(1, message, now);
    core.check_integrity();
  }
  void pass(double seconds) { core.tick(now += seconds); }
  using Ids = std::vector<std::string>;

  WindowSink sink;
  double now = 10;
  uint64_t numbers = 0;
  ClientCore core{{"test", 30, /*max_under_way=*/3, /*retry_refused=*/true}, sink};
};

TEST_F(ClientWindowTest, SoManyAtOnceInTheirOrder) {
  submit(1, 6);
  EXPECT_EQ(sink.take(), (Ids{"1", "2", "3"}));
  EXPECT_EQ(core.num_waiting(), 3u);
  finish("2");
  EXPECT_EQ(sink.take(), Ids{"4"});
  core.cancel(5);
  core.check_integrity();
  finish("1");
  EXPECT_EQ(sink.take(), Ids{"6"});
  EXPECT_EQ(core.num_waiting(), 0u);
}

TEST_F(ClientWindowTest, WhatIsRefusedIsSentAgainWhenTheServerSays) {
  submit(1, 3);
  sink.take();
  refuse("2", 5);
  refuse("3", 5);
  submit(4, 4);
  finish("1");
  pass(4.9);
  EXPECT_TRUE(sink.take().empty()) << "not yet";
  EXPECT_TRUE(sink.ended.size() == 1 && sink.ended[0].second.empty());
  pass(0.2);
  Ids sent = sink.take();
  ASSERT_FALSE(sent.empty());
  EXPECT_EQ(sent.front(), "2") << "the first comes first";
  while (core.num_open() > 0) {
    for (const std::string& id : sent) finish(id);
    pass(0.1);
    sent = sink.take();
  }
  EXPECT_EQ(sink.ended.size(), 4u);
  for (const auto& [key, error] : sink.ended) EXPECT_EQ(error, "") << key;
}

TEST_F(ClientWindowTest, DeadlinesCountWhileTheyWait) {
  submit(1, 3);
  submit(4, 4, 2);
  submit(5, 5);
  pass(1.9);
  EXPECT_EQ(sink.ended.size(), 0u);
  pass(0.2);
  ASSERT_EQ(sink.ended.size(), 1u);
  EXPECT_EQ(sink.ended[0], std::pair(StreamKey{4}, std::string("timeout_error")));
  core.check_integrity();
}

TEST_F(ClientWindowTest, ADeadlineThatCannotBeMetIsToldAtOnce) {
  submit(1, 1, 2);
  refuse("1", 5, "timeout");
  ASSERT_EQ(sink.ended.size(), 1u);
  EXPECT_EQ(sink.ended[0].second, "overloaded_error");
}

TEST_F(ClientWindowTest, AcrossConnections) {
  submit(1, 5);
  core.disconnected("gone", now);
  core.check_integrity();
  sink.take();
  core.connected(2, now);  // the first three are resumed
  core.check_integrity();
  EXPECT_TRUE(sink.take().empty());
  EXPECT_EQ(core.num_waiting(), 2u);
  core.close("closed", "");
  core.check_integrity();
  EXPECT_EQ(sink.ended.size(), 5u);
}

// A server that takes few, and refuses the others with any time or none: each comes to its end.
TEST(ClientWindowRandom, NothingIsLost) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    WindowSink sink;
    ClientCore core{{"test", 30, 1 + random() % 40, true}, sink};
    const size_t most = 1 + random() % 20;
    std::set<std::string> at_server;
    double now = 0;
    uint64_t numbers = 0;
    core.connected(1, now);
    const int all = 300;
    for (int i = 1; i <= all; ++i) core.submit(i, submission(i), now);
    for (int round = 0; round < 20000 && core.num_open() > 0; ++round, now += 0.1) {
      core.tick(now);
      for (const std::string& id : sink.take()) {
        if (at_server.size() < most) {
          at_server.insert(id);
          continue;
        }
        proto::ServerMessage message;
        message.add_chunks()->set_request_id(id);
        message.mutable_chunks(0)->mutable_error()->set_type("overloaded_error");
        message.mutable_chunks(0)->mutable_error()->set_retry_after(0.1 * (random() % 20));
        core.on_message(1, message, now);
      }
      while (!at_server.empty() && random() % 3 != 0) {
        proto::ServerMessage message;
        message.set_number(++numbers);
        message.add_chunks()->set_request_id(*at_server.begin());
        message.mutable_chunks(0)->set_finished(true);
        at_server.erase(at_server.begin());
        core.on_message(1, message, now);
        core.consumed(1, numbers);
      }
      core.check_integrity();
    }
    EXPECT_EQ(sink.ended.size(), static_cast<size_t>(all)) << seed;
    for (const auto& [key, error] : sink.ended) EXPECT_EQ(error, "") << key;
  }
}

// The last of the most sequences that there may be is known: its later chunks are no new one.
TEST(ClientManySequences, TheLastOneGoesOn) {
  WindowSink sink;
  ClientCore core{{"test", 30}, sink};
  core.connected(1, 0);
  core.submit(1, submission(1), 0);
  constexpr int kMost = 65536;
  for (int token = 0; token < 2; ++token) {
    proto::ServerMessage message;
    message.set_number(static_cast<uint64_t>(token) + 1);
    proto::RequestChunk& chunk = *message.add_chunks();
    chunk.set_request_id("1");
    for (int i = 0; i < kMost; ++i) {
      proto::CompletionChunk& output = *chunk.add_outputs();
      output.set_index(i);
      output.set_token_offset(token);
      output.add_token_ids(5);
    }
    core.on_message(1, message, 0);
    core.consumed(1, static_cast<uint64_t>(token) + 1);
  }
  EXPECT_TRUE(sink.ended.empty());
  proto::ServerMessage message;
  message.set_number(3);
  message.add_chunks()->set_request_id("1");
  message.mutable_chunks(0)->add_outputs()->set_index(kMost);
  core.on_message(1, message, 0);
  ASSERT_EQ(sink.ended.size(), 1u);
  EXPECT_EQ(sink.ended[0].second, "protocol_error");
}

}  // namespace
}  // namespace tandem::client::client_window_test
