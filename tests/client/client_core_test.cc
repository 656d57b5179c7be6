// What ClientCore makes of single messages, right and wrong. Whole lives of streams over
// connections that break: client_core_random_test.cc.
#include "client/client_core.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tandem::client {
namespace {

// What leaves the core.
struct Sink : ClientOutbox {
  void send(proto::ClientMessage message) override { sent.push_back(std::move(message)); }
  void deliver(Delivery delivery) override { delivered.push_back(std::move(delivery)); }
  void drop_connection(const std::string& reason) override { dropped.push_back(reason); }
  std::deque<proto::ClientMessage> sent;
  std::deque<Delivery> delivered;
  std::vector<std::string> dropped;
};

proto::SubmitRequest submission(const std::string& id, double timeout = 0) {
  proto::SubmitRequest request;
  request.set_request_id(id);
  request.mutable_prompt()->mutable_encoder()->set_text("x");
  request.set_timeout(timeout);
  return request;
}

proto::ServerMessage chunk_message(uint64_t number, const std::string& id, int offset,
                                   const std::vector<int>& tokens, int64_t text_offset,
                                   const std::string& text, bool finished = false) {
  proto::ServerMessage message;
  message.set_number(number);
  proto::RequestChunk& chunk = *message.add_chunks();
  chunk.set_request_id(id);
  proto::CompletionChunk& output = *chunk.add_outputs();
  output.set_token_offset(offset);
  for (const int t : tokens) output.add_token_ids(t);
  output.set_text_offset(text_offset);
  output.set_text(text);
  chunk.set_finished(finished);
  return message;
}

proto::ServerMessage error_message(const std::string& id, const std::string& type,
                                   const std::string& param = {}) {
  proto::ServerMessage message;
  proto::RequestChunk& chunk = *message.add_chunks();
  chunk.set_request_id(id);
  chunk.set_finished(true);
  chunk.mutable_error()->set_type(type);
  chunk.mutable_error()->set_param(param);
  return message;
}

class ClientCoreTest : public ::testing::Test {
 protected:
  // The one error that was delivered.
  std::string error_type() {
    std::string type;
    for (const Delivery& d : sink.delivered)
      for (const StreamNews& n : d.streams)
        if (n.error) type += n.error->type() + ";";
    return type;
  }
  void open(const std::string& id) {
    core.connected(1, 0);
    core.submit(7, submission(id), 0);
    sink.sent.clear();
  }
  Sink sink;
  ClientCore core{{"test", 30}, sink};
};

TEST_F(ClientCoreTest, DropsWhatItHasAndNumbersTheRest) {
  open("a");
  core.on_message(1, chunk_message(1, "a", 0, {1, 2, 3}, 0, "abc"), 0);
  core.on_message(1, chunk_message(2, "a", 1, {2, 3, 4}, 2, "cde"), 0);
  ASSERT_EQ(sink.delivered.size(), 2u);
  const proto::CompletionChunk& news = sink.delivered[1].streams.at(0).chunk.outputs(0);
  EXPECT_EQ(news.token_offset(), 3);
  ASSERT_EQ(news.token_ids_size(), 1);
  EXPECT_EQ(news.token_ids(0), 4);
  EXPECT_EQ(news.text_offset(), 3);
  EXPECT_EQ(news.text(), "de");
}

// After a connection broke they come from the first on.
TEST_F(ClientCoreTest, SegmentsComeOnceToo) {
  open("a");
  const auto message = [](uint64_t number, int offset, int count) {
    proto::ServerMessage out = chunk_message(number, "a", 0, {}, 0, "");
    proto::CompletionChunk& news = *out.mutable_chunks(0)->mutable_outputs(0);
    news.set_segment_offset(offset);
    for (int i = 0; i < count; ++i) news.add_segments()->set_start(offset + i);
    out.mutable_chunks(0)->mutable_progress()->set_seconds(9);
    return out;
  };
  core.on_message(1, message(1, 0, 2), 0);
  core.on_message(1, message(2, 0, 3), 0);
  core.on_message(1, message(3, 1, 1), 0);
  ASSERT_EQ(sink.delivered.size(), 3u);
  EXPECT_EQ(sink.delivered[1].streams.at(0).chunk.progress().seconds(), 9);
  const auto& second = sink.delivered[1].streams.at(0).chunk.outputs(0);
  ASSERT_EQ(second.segments_size(), 1);
  EXPECT_EQ(second.segments(0).start(), 2);
  EXPECT_EQ(second.segment_offset(), 2);
  EXPECT_EQ(sink.delivered[2].streams.at(0).chunk.outputs(0).segments_size(), 0);
  core.on_message(1, message(4, 4, 1), 0);  // a gap
  EXPECT_EQ(error_type(), "protocol_error;");
  for (const int offset : {-1, 1, 2147483647}) {
    Sink out;
    ClientCore client{{"test", 30}, out};
    client.connected(1, 0);
    client.submit(7, submission("a"), 0);
    client.on_message(1, message(1, offset, 1), 0);
    ASSERT_EQ(out.delivered.size(), 1u) << offset;
    EXPECT_EQ(out.delivered[0].streams.at(0).error->type(), "protocol_error") << offset;
  }
}

TEST_F(ClientCoreTest, PromptLogprobsComeOnceToo) {
  open("a");
  const auto message = [](uint64_t number, int offset, const std::vector<int>& tokens) {
    proto::ServerMessage out;
    out.set_number(number);
    proto::RequestChunk& chunk = *out.add_chunks();
    chunk.set_request_id("a");
    chunk.set_prompt_logprobs_offset(offset);
    for (const int t : tokens) chunk.add_prompt_logprobs()->add_top()->set_token_id(t);
    return out;
  };
  core.on_message(1, message(1, 0, {1, 2}), 0);
  core.on_message(1, message(2, 1, {2, 3}), 0);
  core.on_message(1, message(3, 0, {1}), 0);
  ASSERT_EQ(sink.delivered.size(), 3u);
  const auto& second = sink.delivered[1].streams.at(0).chunk;
  ASSERT_EQ(second.prompt_logprobs_size(), 1);
  EXPECT_EQ(second.prompt_logprobs(0).top(0).token_id(), 3);
  EXPECT_EQ(second.prompt_logprobs_offset(), 2);
  EXPECT_EQ(sink.delivered[2].streams.at(0).chunk.prompt_logprobs_size(), 0);
  core.on_message(1, message(4, 5, {9}), 0);  // a gap
  EXPECT_EQ(error_type(), "protocol_error;");

  for (const int offset : {-1, 1, 2147483647}) {
    Sink out;
    ClientCore client{{"test", 30}, out};
    client.connected(1, 0);
    client.submit(7, submission("a"), 0);
    client.on_message(1, message(1, offset, {1}), 0);
    ASSERT_EQ(out.delivered.size(), 1u);
    EXPECT_TRUE(out.delivered[0].streams.at(0).error.has_value()) << offset;
  }
}

TEST_F(ClientCoreTest, AcknowledgesOnlyWhatWasConsumed) {
  open("a");
  core.on_message(1, chunk_message(1, "a", 0, {1}, 0, "a"), 0);
  EXPECT_TRUE(sink.sent.empty());
  core.consumed(1, 1);
  ASSERT_EQ(sink.sent.size(), 1u);
  EXPECT_EQ(sink.sent[0].acknowledge().message(), 1u);
  core.consumed(1, 5);  // never came
  core.consumed(0, 1);  // another connection's
  EXPECT_EQ(sink.sent.size(), 1u);
}

TEST_F(ClientCoreTest, AGapEndsTheStream) {
  for (const auto& [message, what] :
       {std::pair{chunk_message(1, "a", 1, {1}, 0, ""), "tokens"},
        std::pair{chunk_message(1, "a", 0, {1}, 1, "x"), "text"},
        std::pair{chunk_message(1, "a", -1, {1}, 0, ""), "negative"},
        std::pair{chunk_message(1, "a", 2147483647, {1}, 0, ""), "tokens"},
        std::pair{chunk_message(1, "a", 0, {1}, INT64_MAX, "x"), "text"},
        std::pair{chunk_message(1, "a", 0, {1}, INT64_MIN, "x"), "negative"},
        std::pair{chunk_message(0, "a", 0, {1}, 0, "x"), "without a number"}}) {
    Sink out;
    ClientCore client{{"test", 30}, out};
    client.connected(1, 0);
    client.submit(7, submission("a"), 0);
    out.sent.clear();
    client.on_message(1, message, 0);
    ASSERT_EQ(out.delivered.size(), 1u) << what;
    const auto& error = out.delivered[0].streams.at(0).error;
    ASSERT_TRUE(error) << what;
    EXPECT_EQ(error->type(), "protocol_error");
    EXPECT_NE(error->message().find(what), std::string::npos) << error->message();
    EXPECT_EQ(client.num_open(), 0u);
    ASSERT_EQ(out.sent.size(), 1u);
    EXPECT_EQ(out.sent[0].cancel().request_id(), "a");
  }
}

TEST_F(ClientCoreTest, OtherPeoplesRequestsAreIgnored) {
  open("a");
  core.on_message(1, chunk_message(1, "b", 5, {1}, 9, "x"), 0);
  core.on_message(2, chunk_message(1, "a", 0, {1}, 0, "x"), 0);
  core.on_message(0, chunk_message(1, "a", 0, {1}, 0, "x"), 0);
  ASSERT_EQ(sink.delivered.size(), 1u);
  EXPECT_TRUE(sink.delivered[0].streams.empty());
  EXPECT_EQ(core.num_open(), 1u);
}

TEST_F(ClientCoreTest, ALostMessageBreaksTheConnection) {
  open("a");
  core.on_message(1, chunk_message(2, "a", 0, {1}, 0, "x"), 0);
  EXPECT_EQ(sink.dropped.size(), 1u);
  EXPECT_FALSE(core.is_connected());
  EXPECT_EQ(core.num_open(), 1u);
}

TEST_F(ClientCoreTest, AServerThatFloodsIsLeft) {
  open("a");
  for (uint64_t i = 1; i <= 1000; ++i)
    core.on_message(1, chunk_message(i, "a", static_cast<int>(i) - 1, {1}, 0, ""), 0);
  EXPECT_EQ(sink.delivered.size(), ClientCore::kMaxUnconsumed);
  EXPECT_EQ(sink.dropped.size(), 1u);
}

TEST_F(ClientCoreTest, ResumesBehindWhatItHas) {
  open("a");
  core.on_message(1, chunk_message(1, "a", 0, {1, 2}, 0, "ab"), 0);
  core.disconnected("test", 1);
  core.connected(2, 2);
  ASSERT_EQ(sink.sent.size(), 2u);
  ASSERT_TRUE(sink.sent[0].has_hello());
  const proto::ResumeRequest& resume = sink.sent[1].resume();
  EXPECT_EQ(resume.request_id(), "a");
  ASSERT_EQ(resume.received_size(), 1);
  EXPECT_EQ(resume.received(0).num_tokens(), 2);
  EXPECT_EQ(resume.received(0).text_bytes(), 2);
  // The server has forgotten it: half a request is not begun anew.
  core.on_message(2, error_message("a", "not_found_error", "request_id"), 2);
  EXPECT_EQ(error_type(), "not_found_error;");
}

TEST_F(ClientCoreTest, SubmitsAgainWhatNeverArrived) {
  open("a");
  core.disconnected("test", 1);
  core.connected(2, 2);
  EXPECT_TRUE(sink.sent.at(1).has_resume());
  core.on_message(2, error_message("a", "not_found_error", "request_id"), 2);
  EXPECT_TRUE(sink.sent.at(2).has_submit());
  // The first submission came late and is in the way.
  core.on_message(2, error_message("a", "invalid_request_error", "request_id"), 2);
  EXPECT_TRUE(sink.sent.at(3).has_resume());
  EXPECT_EQ(error_type(), "");
  core.on_message(2, chunk_message(1, "a", 0, {1}, 0, "x", true), 2);
  EXPECT_EQ(core.num_open(), 0u);
}

TEST_F(ClientCoreTest, AServerThatDeniesEverythingIsNotAskedForEver) {
  open("a");
  core.disconnected("test", 1);
  core.connected(2, 2);
  for (int i = 0; i < 20 && core.num_open() > 0; ++i)
    core.on_message(
        2, error_message("a", i % 2 ? "invalid_request_error" : "not_found_error", "request_id"),
        2);
  EXPECT_EQ(core.num_open(), 0u);
}

TEST_F(ClientCoreTest, GivesUpAfterTheReconnectTimeout) {
  open("a");
  core.query_info(3, 0);
  core.disconnected("test", 10);
  core.submit(8, submission("b"), 20);
  core.submit(9, submission("c", /*timeout=*/5), 20);
  core.tick(26.5);
  EXPECT_EQ(error_type(), "timeout_error;");
  core.tick(39.9);
  EXPECT_EQ(core.num_open(), 2u);
  core.tick(40.1);
  EXPECT_EQ(error_type(), "timeout_error;connection_error;");
  core.tick(50.1);
  EXPECT_EQ(error_type(), "timeout_error;connection_error;connection_error;");
}

TEST_F(ClientCoreTest, CancelEndsItHereAndThere) {
  open("a");
  core.cancel(7);
  core.cancel(7);
  ASSERT_EQ(sink.sent.size(), 1u);
  EXPECT_EQ(sink.sent[0].cancel().request_id(), "a");
  EXPECT_EQ(error_type(), "cancelled;");
  core.on_message(1, chunk_message(1, "a", 0, {1}, 0, "x"), 0);  // was under way
  EXPECT_EQ(error_type(), "cancelled;");
}

TEST_F(ClientCoreTest, AnIdIsOpenOnce) {
  open("a");
  core.submit(8, submission("a"), 0);
  EXPECT_EQ(error_type(), "invalid_request_error;");
  EXPECT_EQ(core.num_open(), 1u);
}

TEST_F(ClientCoreTest, TheVersionIsChecked) {
  open("a");
  core.query_info(3, 0);
  proto::ServerMessage message;
  message.mutable_info()->set_query(3);
  message.mutable_info()->set_protocol_version(99);
  core.on_message(1, message, 0);
  ASSERT_EQ(sink.delivered.size(), 1u);
  ASSERT_TRUE(sink.delivered[0].infos.at(0).error);
  EXPECT_EQ(sink.delivered[0].infos[0].error->type(), "protocol_error");
  EXPECT_EQ(sink.delivered[0].infos[0].error->message(),
            "the server speaks version 99 of the protocol, this client version 4: both must be of "
            "the same release of Tandem");
}

// A server that turns this client away, as those of version 3 do, answers nothing else.
TEST_F(ClientCoreTest, BeingTurnedAwayIsTold) {
  open("a");
  core.query_info(3, 0);
  proto::ServerMessage message;
  proto::RequestChunk& chunk = *message.add_chunks();
  chunk.set_finished(true);
  chunk.mutable_error()->set_type("invalid_request_error");
  chunk.mutable_error()->set_message("protocol_version: the server speaks version 3");
  core.on_message(1, message, 0);
  EXPECT_EQ(error_type(), "protocol_error;");
  ASSERT_FALSE(sink.delivered.empty());
  const Delivery& last = sink.delivered.back();
  ASSERT_EQ(last.infos.size(), 1u);
  EXPECT_EQ(last.infos[0].error->type(), "protocol_error");
  const std::string& text = last.infos[0].error->message();
  EXPECT_NE(text.find("the server speaks version 3"), std::string::npos) << text;
  EXPECT_NE(text.find("this client speaks version 4"), std::string::npos) << text;
}

TEST_F(ClientCoreTest, AfterCloseEverythingFailsAtOnce) {
  open("a");
  core.close("connection_error", "closed");
  EXPECT_EQ(error_type(), "connection_error;");
  core.submit(8, submission("b"), 0);
  EXPECT_EQ(error_type(), "connection_error;connection_error;");
}

TEST_F(ClientCoreTest, RandomMessagesNeverCrash) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (int round = 0; round < 300; ++round) {
    Sink out;
    ClientCore client{{"test", 30}, out};
    client.connected(1, 0);
    for (StreamKey key = 0; key < 4; ++key) client.submit(key, submission(std::to_string(key)), 0);
    std::map<StreamKey, std::map<int, std::vector<int>>> got;
    for (uint64_t i = 1; i < 50; ++i) {
      const auto some = [&] {
        static const int64_t values[] = {0, 0, 0, 1, 2, 5, -1, INT32_MAX, INT64_MAX, INT64_MIN};
        return values[random() % 10];
      };
      proto::ServerMessage message =
          chunk_message(random() % 20 ? i : random(), std::to_string(random() % 5),
                        static_cast<int>(some()), std::vector<int>(random() % 4, 1), some(),
                        std::string(random() % 4, 'x'), random() % 30 == 0);
      message.mutable_chunks(0)->mutable_outputs(0)->set_index(static_cast<int>(some()));
      for (unsigned k = random() % 3; k > 0; --k)
        message.mutable_chunks(0)->mutable_outputs(0)->add_logprobs();
      client.on_message(1, message, 0);
      client.consumed(1, i);
    }
    // Whatever came, what was passed on is without gaps.
    for (const Delivery& delivery : out.delivered)
      for (const StreamNews& news : delivery.streams)
        for (const proto::CompletionChunk& o : news.chunk.outputs()) {
          if (news.error) continue;
          auto& tokens = got[news.stream][o.index()];
          ASSERT_EQ(o.token_offset(), static_cast<int>(tokens.size()));
          tokens.insert(tokens.end(), o.token_ids().begin(), o.token_ids().end());
        }
  }
}

}  // namespace
}  // namespace tandem::client
