// An exchange's answer on its way to the client.
#include "server/http/connections/answer_sender.h"

#include <memory>
#include <string>

#include "tests/support/network/channel_test.h"

namespace tandem::server {
namespace {

using namespace std::chrono_literals;

class AnswerSenderTest : public test::ChannelTest {
 protected:
  AnswerSenderTest() {
    HttpRequest request;
    request.method = "GET";
    request.path = "/a";
    exchange = std::make_shared<ConnectionExchange>(std::move(request), *channel);
    sender.emplace(*channel, *exchange, true);
  }
  static boost::asio::awaitable<bool> answer(AnswerSender& sender) {
    bool complete = co_await sender.wait_for_head();
    if (complete) complete = co_await sender.send();
    co_return complete;
  }
  std::future<bool> start_answer() { return start(answer(*sender)); }

  std::shared_ptr<ConnectionExchange> exchange;
  std::optional<AnswerSender> sender;
};

TEST_F(AnswerSenderTest, Whole) {
  auto sent = start_answer();
  run_for(10ms);
  exchange->respond({.body = "the answer", .content_type = "text/plain"});
  EXPECT_TRUE(finish(std::move(sent)));
  EXPECT_TRUE(sender->keep_alive());
  EXPECT_EQ(exchange->bytes_sent, 10u);
  const std::string text = client->read("the answer");
  EXPECT_EQ(text.rfind("HTTP/1.1 200 OK\r\n", 0), 0u) << text;
  EXPECT_NE(text.find("Content-Length: 10\r\n"), std::string::npos) << text;
}

TEST_F(AnswerSenderTest, StreamsAsItComes) {
  auto sent = start_answer();
  exchange->start_stream({.content_type = "text/event-stream"});
  exchange->write("one");
  run_for(20ms);
  EXPECT_NE(client->read("3\r\none\r\n").find("chunked"), std::string::npos);
  exchange->write("two");
  exchange->end();
  EXPECT_TRUE(finish(std::move(sent)));
  EXPECT_NE(client->read("0\r\n\r\n").find("3\r\ntwo\r\n"), std::string::npos);
  EXPECT_EQ(exchange->bytes_sent, 6u);
  EXPECT_TRUE(sender->keep_alive());
}

TEST_F(AnswerSenderTest, StreamsToOldClientsEndWithTheConnection) {
  exchange->version = 10;
  auto sent = start_answer();
  exchange->start_stream({});
  exchange->write("one");
  exchange->end();
  EXPECT_TRUE(finish(std::move(sent)));
  EXPECT_FALSE(sender->keep_alive());
}

// Whoever closes its connection is asked by the answer's first bytes.
TEST_F(AnswerSenderTest, WhoHasGoneIsNoticedBeforeThereIsAnAnswer) {
  channel->watch();
  auto sent = start_answer();
  client->close();
  EXPECT_FALSE(finish(std::move(sent)));
  EXPECT_TRUE(channel->gone());
}

// A half-closed connection gets its answer, once.
TEST_F(AnswerSenderTest, WhoOnlySendsNoMoreIsAnswered) {
  channel->watch();
  auto sent = start_answer();
  client->shut_down();
  EXPECT_TRUE(run_until([&] { return exchange->sent_ahead > 0; }));
  exchange->respond({.body = "the answer"});
  EXPECT_TRUE(finish(std::move(sent)));
  EXPECT_FALSE(sender->keep_alive());
  const std::string text = client->read("the answer");
  EXPECT_EQ(text.rfind("HTTP/1.1 200 OK\r\n", 0), 0u) << text;
  EXPECT_EQ(text.find("HTTP/1.", 3), std::string::npos) << text;
}

TEST_F(AnswerSenderTest, WhoDoesNotReadAStreamIsGivenUp) {
  config.max_unsent_bytes = 100;
  exchange = std::make_shared<ConnectionExchange>(HttpRequest(), *channel);
  sender.emplace(*channel, *exchange, true);
  auto sent = start_answer();
  exchange->start_stream({});
  exchange->write(std::string(101, 'a'));
  EXPECT_FALSE(finish(std::move(sent)));
}

}  // namespace
}  // namespace tandem::server
