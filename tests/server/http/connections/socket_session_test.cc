// Messages between an exchange and its WebSocket.
#include "server/http/connections/socket_session.h"

#include <memory>
#include <string>
#include <vector>

#include "tests/support/network/channel_test.h"

namespace tandem::server {
namespace {

using namespace std::chrono_literals;

// A client's frame of a text, masked with zeros.
std::string frame(const std::string& text) {
  std::string out = "\x81";
  out += static_cast<char>(0x80 | text.size());
  return out + std::string(4, '\0') + text;
}

class SocketSessionTest : public test::ChannelTest {
 protected:
  SocketSessionTest() {
    HttpRequest request;
    request.method = "GET";
    request.headers = {{"host", "a"},
                       {"upgrade", "websocket"},
                       {"connection", "upgrade"},
                       {"sec-websocket-version", "13"},
                       {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="}};
    exchange = std::make_shared<ConnectionExchange>(std::move(request), *channel);
    exchange->start_socket({.status = 101},
                           [this](std::string text) { said.push_back(std::move(text)); });
  }

  std::shared_ptr<ConnectionExchange> exchange;
  std::vector<std::string> said;
};

TEST_F(SocketSessionTest, CarriesMessagesUntilItIsEnded) {
  auto session = start(run_socket_session(*channel, *exchange));
  run_for(20ms);
  EXPECT_NE(client->read("\r\n\r\n").find("101"), std::string::npos);
  client->send(frame("hello"));
  EXPECT_TRUE(run_until([&] { return !said.empty(); }));
  EXPECT_EQ(said, std::vector<std::string>{"hello"});
  exchange->write("and hello");
  run_for(20ms);
  EXPECT_NE(client->read("and hello").find("and hello"), std::string::npos);
  exchange->end_socket(4000, "as asked");
  run_for(20ms);
  EXPECT_NE(client->read("as asked").find("as asked"), std::string::npos);
  client->send(std::string("\x88\x82\0\0\0\0\x0f\xa0", 8));  // goodbye, 4000
  EXPECT_TRUE(finish(std::move(session)));
  EXPECT_FALSE(channel->gone());
  EXPECT_GT(exchange->bytes_sent, 0u);
}

TEST_F(SocketSessionTest, ADrainingServerSaysGoodbye) {
  auto session = start(run_socket_session(*channel, *exchange));
  run_for(20ms);
  channel->drain();
  channel->wake();
  run_for(20ms);
  EXPECT_NE(client->read("the server ends").find("the server ends"), std::string::npos);
  client->send(std::string("\x88\x82\0\0\0\0\x03\xe9", 8));
  EXPECT_TRUE(finish(std::move(session)));
}

TEST_F(SocketSessionTest, WhoGoesWithoutAGoodbye) {
  auto session = start(run_socket_session(*channel, *exchange));
  run_for(20ms);
  client->close();
  EXPECT_FALSE(finish(std::move(session)));
  EXPECT_TRUE(channel->gone());
}

}  // namespace
}  // namespace tandem::server
