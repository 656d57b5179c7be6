// A channel's bytes, its time, and the ways in which a client leaves.
#include "server/http/connections/channel.h"

#include <string>

#include "tests/support/network/channel_test.h"

namespace tandem::server {
namespace {

using namespace std::chrono_literals;
using test::ChannelTest;

std::string text_of(const ConnectionInput& input) {
  return {static_cast<const char*>(input.data().data()), input.size()};
}

TEST_F(ChannelTest, BytesInBothDirections) {
  EXPECT_EQ(channel->remote(), "127.0.0.1");
  EXPECT_FALSE(channel->secure());
  EXPECT_TRUE(run(channel->shake_hands()));
  client->send("question");
  EXPECT_TRUE(run(channel->read_more(100)));
  EXPECT_EQ(text_of(channel->input()), "question");
  EXPECT_TRUE(run(channel->send("answer")));
  EXPECT_EQ(client->read("answer"), "answer");
}

TEST_F(ChannelTest, WhatEndsARead) {
  channel->set_deadline(50ms);
  EXPECT_FALSE(run(channel->read_more(100)));
  EXPECT_TRUE(channel->late());
  EXPECT_FALSE(channel->gone());
  channel->set_deadline(10s);
  EXPECT_FALSE(channel->late());
  auto read = start(channel->read_more(100));
  run_for(20ms);
  channel->cancel();
  EXPECT_FALSE(finish(std::move(read)));
  client->shut_down();
  EXPECT_FALSE(run(channel->read_more(100)));
  EXPECT_TRUE(channel->input().ended());
  EXPECT_TRUE(run(channel->send("it reads")));
}

TEST_F(ChannelTest, ClientsThatDoNotRead) {
  EXPECT_FALSE(run(channel->send(std::string(64 << 20, 'a')))) << "no progress in time";
  EXPECT_TRUE(channel->gone());
}

TEST_F(ChannelTest, WatchesWhileAnAnswerIsUnderWay) {
  channel->watch();
  client->send("the next request");
  EXPECT_TRUE(run_until([&] { return channel->input().size() == 16; }));
  client->close();
  EXPECT_TRUE(run_until([&] { return channel->input().ended() || channel->gone(); }));
  // A half-closed connection looks the same until something is sent.
  EXPECT_TRUE(run_until([&] { return channel->input().probe_due() || channel->gone(); }));
  run(channel->send("HTTP/1."));
  EXPECT_TRUE(run_until([&] { return channel->gone(); }));
}

TEST_F(ChannelTest, ClosesSoThatTheLastAnswerIsRead) {
  client->send(std::string(3000, 'b'));  // that nobody reads
  run(channel->send("answer"));
  auto closed = start(channel->close());
  run_for(20ms);
  EXPECT_EQ(client->read_all(), "answer");
  client->close();
  finish(std::move(closed));
}

TEST_F(ChannelTest, EndsNow) {
  auto wait = start(channel->wait());
  run_for(10ms);
  channel->end_now();
  finish(std::move(wait));
  EXPECT_TRUE(channel->gone());
  EXPECT_FALSE(run(channel->send("answer")));
  EXPECT_EQ(client->read_all(), "");
  EXPECT_TRUE(client->closed());
}

}  // namespace
}  // namespace tandem::server
