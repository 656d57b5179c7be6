// WebSockets over real connections, frame by frame.
#include "server/http/sockets/web_socket.h"

#include <gtest/gtest.h>

#include <boost/beast/_experimental/test/stream.hpp>

#include "tests/support/network/echo_server.h"

namespace tandem::web_socket_test {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::HttpServerTest;
using test::RawClient;
using test::status_of_answer;

const std::string kRequest =
    "GET /socket HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";

enum Opcode : uint8_t { kContinue = 0, kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };

// As a client sends it.
std::string frame(uint8_t opcode, const std::string& payload, bool fin = true, bool masked = true) {
  std::string out{static_cast<char>((fin ? 0x80 : 0) | opcode)};
  const size_t n = payload.size();
  const char mask_bit = masked ? '\x80' : '\0';
  if (n < 126) {
    out += static_cast<char>(mask_bit | static_cast<char>(n));
  } else if (n < 65536) {
    out += {static_cast<char>(mask_bit | 126), static_cast<char>(n >> 8), static_cast<char>(n)};
  } else {
    out += static_cast<char>(mask_bit | 127);
    for (int i = 7; i >= 0; --i) out += static_cast<char>(n >> (8 * i));
  }
  if (!masked) return out + payload;
  const char mask[] = {1, 2, 3, 4};
  out.append(mask, 4);
  for (size_t i = 0; i < n; ++i) out += static_cast<char>(payload[i] ^ mask[i % 4]);
  return out;
}
// A short one as the server sends it.
std::string from_server(uint8_t opcode, const std::string& payload) {
  return frame(opcode, payload, true, /*masked=*/false);
}
std::string close_frame(int code) {
  return {static_cast<char>(code >> 8), static_cast<char>(code & 255)};
}

class WebSockets : public HttpServerTest {
 protected:
  std::unique_ptr<RawClient> open() {
    if (!server) start();
    auto client = std::make_unique<RawClient>(server->port());
    client->send(kRequest);
    answer = client->read("\r\n\r\n");
    EXPECT_EQ(status_of_answer(answer), 101);
    return client;
  }
  // The server ends the socket with that code.
  void expect_close(RawClient& client, int code) {
    const std::string end = client.read_all();
    const size_t at = end.find(static_cast<char>(0x80 | kClose));
    ASSERT_NE(at, end.npos) << end.size();
    EXPECT_EQ(end.substr(at + 2, 2), close_frame(code));
    EXPECT_TRUE(client.closed());
    EXPECT_TRUE(eventually([&] { return hooks.gone == 1; })) << "the handler knows";
    expect_well();
  }
  std::string answer;
};

TEST_F(WebSockets, ExchangeTexts) {
  auto client = open();
  EXPECT_NE(answer.find("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), answer.npos)
      << answer;
  EXPECT_EQ(answer.find("Beast"), answer.npos) << answer;
  EXPECT_NE(answer.find("x-request-id"), answer.npos) << answer;
  client->send(frame(kText, "a"));
  EXPECT_EQ(client->read("said a"), from_server(kText, "said a"));
  // Byte by byte, in parts, with a ping between them.
  for (const char byte : frame(kText, "b", false) + frame(kPing, "p") + frame(kContinue, "c"))
    client->send({byte});
  EXPECT_EQ(client->read("said bc"), from_server(kPong, "p") + from_server(kText, "said bc"));
  client->send(frame(kText, std::string(9000, 'd')));
  EXPECT_EQ(client->read(std::string(9000, 'd')).size(), 4 + 5 + 9000u);
  client->send(frame(kClose, close_frame(1000)));
  expect_close(*client, 1000);
  EXPECT_TRUE(eventually([&] { return hooks.complete_answers >= 1; }));
}

TEST_F(WebSockets, TheServerEndsThem) {
  auto client = open();
  client->send(frame(kText, "end"));
  EXPECT_EQ(client->read("as asked"), from_server(kClose, close_frame(4000) + "as asked"));
  client->send(frame(kClose, close_frame(4000)));
  EXPECT_TRUE(eventually([&] { return hooks.gone == 1; }));
  auto second = open();
  server->drain();
  EXPECT_NE(second->read("ends").find(close_frame(1001)), std::string::npos);
  second->send(frame(kClose, close_frame(1001)));
  second->close();
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 0; }));
}

// Those with something to finish end themselves, once they are told; the others go on until
// drain().
TEST_F(WebSockets, TheServerIsAboutToEnd) {
  auto busy = open(), other = open();
  busy->send(frame(kText, "finish"));
  EXPECT_EQ(busy->read("said finish"), from_server(kText, "said finish"));
  server->end_sockets();
  EXPECT_EQ(busy->read("last word"), from_server(kText, "finished") +
                                         from_server(kClose, close_frame(1001) + "the last word"));
  busy->send(frame(kClose, close_frame(1001)));
  EXPECT_TRUE(eventually([&] { return hooks.gone == 1; }));
  other->send(frame(kText, "finish"));
  EXPECT_NE(other->read("the last word").find("finished"), std::string::npos) << "it was told late";
  other->send(frame(kClose, close_frame(1001)));
  EXPECT_TRUE(eventually([&] { return hooks.gone == 2; }));
  auto third = open();
  third->send(frame(kText, "a"));
  EXPECT_EQ(third->read("said a"), from_server(kText, "said a")) << "others still come";
}

TEST_F(WebSockets, WhatBreaksTheRules) {
  const std::pair<std::string, int> cases[] = {
      {frame(kText, "unmasked", true, false), 1002},
      {frame(kText, "\xff\xfe"), 1007},
      {frame(kText, "half a letter \xe2\x82", false) + frame(kContinue, ""), 1007},
      {frame(kContinue, "of nothing"), 1002},
      {frame(3, "an opcode that is none"), 1002},
      {frame(kPing, std::string(126, 'p')), 1002},
      {frame(kPing, "in parts", false), 1002},
      {frame(kBinary, "bytes"), 1003},
      {frame(kText, std::string(10001, 'x')), 1009},
      {frame(kText, std::string(9000, 'x'), false) + frame(kContinue, std::string(9000, 'x')),
       1009},
      // (The length alone is enough.)
      {std::string("\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff", 10) + "mask", 1009}};
  for (const auto& [bytes, code] : cases) {
    SCOPED_TRACE(code);
    hooks.gone = 0;
    auto client = open();
    client->send(bytes);
    const std::string end = client->read(close_frame(code));
    EXPECT_NE(end.find(close_frame(code)), end.npos);
    client->close();
    EXPECT_TRUE(eventually([&] { return hooks.gone == 1; }));
  }
  EXPECT_EQ(hooks.messages, 0);
  expect_well();
}

TEST_F(WebSockets, FramesBeforeTheAnswer) {
  EXPECT_EQ(status_of_answer(ask(kRequest + frame(kText, "early"))), 400);
  std::string old = kRequest;
  old.replace(old.find("HTTP/1.1"), 8, "HTTP/1.0");
  EXPECT_EQ(status_of_answer(ask(old)), 400);
  EXPECT_EQ(status_of_answer(ask("GET /socket HTTP/1.1\r\nHost: a\r\n\r\n", "}")), 426);
  expect_well();
}

TEST_F(WebSockets, ClientsThatGo) {
  for (int i = 0; i < 10; ++i) {
    auto client = open();
    client->send(frame(kText, "a").substr(0, static_cast<size_t>(i)));
    client->close();
  }
  EXPECT_TRUE(eventually([&] { return hooks.gone == 10; }));
  EXPECT_TRUE(eventually([&] { return server->num_connections() == 0; }));
}

TEST_F(WebSockets, ClientsThatDoNotRead) {
  auto client = open();
  client->send(frame(kText, "much"));
  EXPECT_TRUE(eventually([&] { return hooks.gone == 1; })) << "100 MiB are not kept";
  expect_well();
}

TEST_F(WebSockets, StopsWithTheServer) {
  auto client = open();
  server->stop();
  EXPECT_TRUE(eventually([&] { return hooks.gone == 1; }));
}

// A held socket reads no more. What it has read already may come.
TEST_F(WebSockets, HeldOnesWait) {
  auto client = open();
  client->send(frame(kText, "hold"));
  client->read("said hold");
  std::this_thread::sleep_for(20ms);
  for (int i = 0; i < 5; ++i) client->send(frame(kText, "more"));
  client->read("said more", 50ms);
  EXPECT_LE(hooks.messages, 2);
}

// Whoever is silent is asked, and given up.
TEST(WebSocket, AsksWhoIsSilent) {
  boost::asio::io_context io;
  using Pipe = boost::beast::test::stream;
  Pipe pipe(io), client(io);
  pipe.connect(client);
  bool ended = false;
  const auto socket = std::make_shared<server::WebSocket<Pipe>>(
      pipe, nullptr, server::WebSocketLimits{.ping_after = 20ms},
      server::WebSocket<Pipe>::Hooks{[](const std::string&) {}, [&] { ended = true; }});
  server::HttpRequest request;
  request.headers = {{"host", "a"},
                     {"connection", "upgrade"},
                     {"upgrade", "websocket"},
                     {"sec-websocket-version", "13"},
                     {"sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="}};
  socket->accept(request, {});
  io.run();
  EXPECT_TRUE(ended);
  EXPECT_FALSE(socket->clean());
  EXPECT_NE(client.str().find(from_server(kPing, "")), std::string::npos);
}

}  // namespace
}  // namespace tandem::web_socket_test
