// One request from a channel: its parts in any pieces, admission before the body, and what is
// refused.
#include "server/http/connections/request_reception.h"

#include <memory>
#include <string>

#include "tests/support/network/channel_test.h"
#include "tests/support/network/echo_server.h"

namespace tandem::server {
namespace {

using namespace std::chrono_literals;
using test::status_of_answer;

class RequestReceptionTest : public test::ChannelTest {
 protected:
  RequestReceptionTest() { config.max_body_bytes = 10000; }
  std::optional<ReceivedRequest> receive(bool crowded = false) {
    reception.emplace(*channel, gate, files);
    return run(reception->receive(crowded, [this] { ++bodies; }));
  }

  test::Echo hooks;
  RequestGate gate{config,
                   hooks,
                   {std::make_shared<BodyBudget>(1 << 20), std::make_shared<BodyBudget>(1 << 20)}};
  boost::asio::thread_pool files{1};
  std::optional<RequestReception> reception;
  int bodies = 0;
};

TEST_F(RequestReceptionTest, AWholeRequest) {
  client->send("POST /a?b=c HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbodyGET /next");
  const auto received = receive();
  ASSERT_TRUE(received);
  EXPECT_EQ(received->request.method, "POST");
  EXPECT_EQ(received->request.path, "/a");
  EXPECT_EQ(received->request.query, "b=c");
  EXPECT_EQ(received->request.body, "body");
  EXPECT_EQ(received->request.remote, "127.0.0.1");
  EXPECT_FALSE(received->refusal);
  EXPECT_TRUE(received->keep_alive);
  EXPECT_EQ(received->version, 11);
  EXPECT_EQ(bodies, 1);
  EXPECT_EQ(channel->input().size(), 9u) << "of the next request";
}

TEST_F(RequestReceptionTest, InPieces) {
  const std::string whole = "POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbody";
  reception.emplace(*channel, gate, files);
  auto received = start(reception->receive(false, [] {}));
  for (const char c : whole) {
    client->send({c});
    run_for(1ms);
  }
  const auto request = finish(std::move(received));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->request.body, "body");
}

TEST_F(RequestReceptionTest, AdmissionComesBeforeTheBody) {
  client->send("POST /locked HTTP/1.1\r\nHost: x\r\nContent-Length: 4000\r\n\r\n");
  const auto received = receive();
  ASSERT_TRUE(received);
  ASSERT_TRUE(received->refusal);
  EXPECT_EQ(received->refusal->status, 401);
  EXPECT_FALSE(received->keep_alive) << "its body is in the way";
  EXPECT_EQ(bodies, 0);
}

TEST_F(RequestReceptionTest, ContinuesWhenItIsAsked) {
  client->send("POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n");
  reception.emplace(*channel, gate, files);
  auto received = start(reception->receive(false, [] {}));
  run_for(50ms);
  EXPECT_EQ(status_of_answer(client->read("\r\n\r\n")), 100);
  client->send("body");
  const auto request = finish(std::move(received));
  ASSERT_TRUE(request);
  EXPECT_EQ(request->request.body, "body");
}

TEST_F(RequestReceptionTest, BodiesAreBoundedAndTimed) {
  client->send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 10001\r\n\r\n");
  EXPECT_EQ(receive()->refusal->status, 413);
  client->send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo");
  EXPECT_EQ(receive()->refusal->status, 408);
}

TEST_F(RequestReceptionTest, WhatIsNoRequestIsAnsweredAtOnce) {
  client->send("no request\r\n\r\n");
  EXPECT_FALSE(receive());
  EXPECT_EQ(status_of_answer(client->read("\r\n\r\n")), 400);
  EXPECT_EQ(hooks.last_status, 400);
}

TEST_F(RequestReceptionTest, WhoGoesIsNotAnswered) {
  client->send("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nbo");
  client->close();
  EXPECT_FALSE(receive() && !channel->input().ended());
  EXPECT_EQ(hooks.requests, 0);
}

TEST_F(RequestReceptionTest, LateAndDraining) {
  client->send("POST /a HTTP/1.1\r\n");
  EXPECT_FALSE(receive());
  EXPECT_EQ(hooks.last_status, 408);
  hooks.last_status = 0;
  channel->drain();
  client->send("POST /a HTTP/1.1\r\n");
  EXPECT_FALSE(receive());
  EXPECT_EQ(hooks.last_status, 0) << "the server ends, it is not the client's fault";
}

TEST_F(RequestReceptionTest, Crowded) {
  client->send("GET /a HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto refused = receive(true);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->refusal->status, 503);
  EXPECT_FALSE(refused->keep_alive);
  client->send("GET /live HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto open = receive(true);
  ASSERT_TRUE(open);
  EXPECT_FALSE(open->refusal);
  EXPECT_FALSE(open->keep_alive);
}

}  // namespace
}  // namespace tandem::server
