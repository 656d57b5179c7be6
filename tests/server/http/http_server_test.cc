// The server's sockets: bounds of size and time, what is no HTTP, clients that go or do not read.
#include "server/http/http_server.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "tests/support/network/echo_server.h"

namespace tandem::server {
namespace {

using namespace std::chrono_literals;
using test::Echo;
using test::eventually;
using test::HttpServerTest;
using test::RawClient;
using test::status_of_answer;

TEST_F(HttpServerTest, KeepsConnectionsAndAnswersInOrder) {
  start();
  RawClient client(server->port());
  client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_NE(client.read("GET /a ").find("200 OK"), std::string::npos);
  // Pipelined, one with a body, split in the middle.
  client.send("POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxyzGET /c%20d?q=1 HT");
  std::this_thread::sleep_for(20ms);
  client.send("TP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  const std::string both = client.read_all();
  const size_t first = both.find("POST /b xyz"), second = both.find("GET /c d ");
  EXPECT_NE(first, std::string::npos);
  EXPECT_NE(second, std::string::npos);
  EXPECT_LT(first, second);
  EXPECT_TRUE(client.closed());
  EXPECT_EQ(hooks.requests, 3);
}

TEST_F(HttpServerTest, Http10AndHead) {
  const std::string old = ask("GET /a HTTP/1.0\r\n\r\n");
  EXPECT_EQ(status_of_answer(old), 200);
  const std::string head = ask("HEAD /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 8"), std::string::npos) << head;
  EXPECT_EQ(head.find("HEAD /a"), std::string::npos) << "no body";
}

TEST_F(HttpServerTest, ChunkedBodiesAndContinue) {
  const std::string chunked =
      ask("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nConnection: "
          "close\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  EXPECT_NE(chunked.find("POST /a abcde"), std::string::npos) << chunked;
  start();
  RawClient client(server->port());
  client.send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_NE(client.read("100 Continue\r\n\r\n").find("100"), std::string::npos);
  client.send("ok");
  EXPECT_NE(client.read("POST /a ok").find("200"), std::string::npos);
}

TEST_F(HttpServerTest, BoundsOfSize) {
  EXPECT_EQ(
      status_of_answer(ask("GET /" + std::string(5000, 'a') + " HTTP/1.1\r\nHost: a\r\n\r\n")),
      431);
  EXPECT_EQ(status_of_answer(
                ask("GET / HTTP/1.1\r\nHost: a\r\nX: " + std::string(5000, 'a') + "\r\n\r\n")),
            431);
  std::string many = "GET / HTTP/1.1\r\nHost: a\r\n";
  for (int i = 0; i < 1000; ++i) many += "X-" + std::to_string(i) + ": y\r\n";
  EXPECT_EQ(status_of_answer(ask(many + "\r\n")), 431);
  EXPECT_EQ(status_of_answer(ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10001\r\n\r\n")),
            413);
  EXPECT_EQ(
      status_of_answer(ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999\r\n\r\n")),
      413);
  std::string chunks = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 30; ++i) chunks += "200\r\n" + std::string(512, 'b') + "\r\n";
  EXPECT_EQ(status_of_answer(ask(chunks + "0\r\n\r\n")), 413);
  EXPECT_EQ(hooks.requests, 0);
  expect_well();
}

TEST_F(HttpServerTest, WhatIsNoHttp) {
  for (const char* bytes :
       {"GARBAGE\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / FTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n: empty\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcdef\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: a\x01"
        "b\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"}) {
    const int status = status_of_answer(ask(bytes));
    EXPECT_TRUE(status == 400 || status == 408 || status == 413 || status == 505)
        << status << " for " << bytes;
  }
  EXPECT_EQ(hooks.requests, 0);
  expect_well();
}

// Both lengths at once: how requests are smuggled past a proxy.
TEST_F(HttpServerTest, ContradictoryLengthsAreNoTwoRequests) {
  const std::string answer =
      ask("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: "
          "chunked\r\n\r\n0\r\n\r\nGET "
          "/evil HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(status_of_answer(answer), 400) << answer;
  EXPECT_EQ(answer.find("/evil"), std::string::npos);
}

TEST_F(HttpServerTest, SlowClients) {
  start();
  std::vector<std::unique_ptr<RawClient>> lorises;
  for (int i = 0; i < 50; ++i) {
    lorises.push_back(std::make_unique<RawClient>(server->port()));
    lorises.back()->send("GET / HTTP/1.1\r\nHost: a\r\n");
  }
  RawClient body(server->port()), silent(server->port());
  body.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  // A byte now and then does not help.
  for (int i = 0; i < 6; ++i) {
    std::this_thread::sleep_for(100ms);
    for (auto& loris : lorises) loris->send("X: y\r\n");
    body.send("d");
  }
  expect_well();
  for (auto& loris : lorises) {
    EXPECT_EQ(status_of_answer(loris->read_all()), 408);
    EXPECT_TRUE(loris->closed());
  }
  EXPECT_EQ(status_of_answer(body.read_all()), 408);
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_TRUE(silent.closed());
  EXPECT_TRUE(eventually([this] { return server->num_connections() == 0; }));
}

TEST_F(HttpServerTest, Streams) {
  start();
  RawClient client(server->port());
  client.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
  auto exchange = hooks.wait_for_open();
  ASSERT_NE(exchange, nullptr);
  EXPECT_NE(client.read("\r\n\r\n").find("Transfer-Encoding: chunked"), std::string::npos);
  exchange->post([exchange] { exchange->write("hello"); });
  EXPECT_EQ(client.read("hello\r\n"), "5\r\nhello\r\n");
  std::this_thread::sleep_for(1000ms);  // longer than any of the timeouts
  exchange->post([exchange] {
    exchange->write("x");
    exchange->end();
  });
  EXPECT_EQ(client.read("0\r\n\r\n"), "1\r\nx\r\n0\r\n\r\n");
  client.send("GET /next HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(status_of_answer(client.read("/next")), 200) << "the connection goes on";
  EXPECT_EQ(hooks.gone, 0);
}

TEST_F(HttpServerTest, ClientsThatGoAreNoticed) {
  start();
  for (const char* path : {"/stream", "/hang"}) {
    const int before = hooks.gone;
    RawClient client(server->port());
    client.send(std::string("GET ") + path + " HTTP/1.1\r\nHost: a\r\n\r\n");
    auto exchange = hooks.wait_for_open();
    ASSERT_NE(exchange, nullptr);
    client.close();
    EXPECT_TRUE(eventually([&] { return hooks.gone == before + 1; })) << path;
    // What is said afterwards is heard by nobody.
    exchange->post([exchange] {
      exchange->write("x");
      exchange->respond({});
      exchange->end();
    });
  }
  EXPECT_TRUE(eventually([this] { return server->num_connections() == 0; }));
  expect_well();
}

TEST_F(HttpServerTest, ClientsThatDoNotReadAreGivenUp) {
  config.max_unsent_bytes = 1 << 20;
  start();
  RawClient client(server->port(), 4096);
  client.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
  auto exchange = hooks.wait_for_open();
  ASSERT_NE(exchange, nullptr);
  const std::string piece(100000, 'x');
  for (int i = 0; i < 200 && hooks.gone == 0; ++i) {
    exchange->post([exchange, piece] { exchange->write(piece); });
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(hooks.gone, 1);
  EXPECT_TRUE(eventually([this] { return server->num_connections() == 0; }));
}

TEST_F(HttpServerTest, DrainLetsAnswersOut) {
  start();
  RawClient idle(server->port()), busy(server->port());
  idle.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
  idle.read("GET /a");
  busy.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
  auto exchange = hooks.wait_for_open();
  ASSERT_NE(exchange, nullptr);
  server->drain();
  EXPECT_EQ(idle.read_all(), "");
  EXPECT_TRUE(idle.closed());
  exchange->post([exchange] {
    exchange->write("last");
    exchange->end();
  });
  EXPECT_NE(busy.read_all().find("last"), std::string::npos);
  EXPECT_TRUE(busy.closed());
  EXPECT_EQ(hooks.gone, 0);
}

TEST_F(HttpServerTest, StopEndsEverything) {
  start();
  RawClient busy(server->port());
  busy.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
  ASSERT_NE(hooks.wait_for_open(), nullptr);
  server->stop();
  EXPECT_EQ(hooks.gone, 1);
  busy.read_all();
  EXPECT_TRUE(busy.closed());
}

TEST_F(HttpServerTest, RequestIds) {
  EXPECT_NE(ask("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine-1\r\nConnection: close\r\n\r\n")
                .find("x-request-id: mine-1\r\n"),
            std::string::npos);
  EXPECT_EQ(
      ask("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: not \"fit\"\r\nConnection: close\r\n\r\n")
          .find("fit"),
      std::string::npos);
  EXPECT_NE(ask("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                "Traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n\r\n")
                .find("traceresponse: 00-4bf92f3577b34da6a3ce929d0e0e4736-"),
            std::string::npos);
}

// Random bytes, random cuts of real requests: an answer or a close, and nothing else is disturbed.
TEST_F(HttpServerTest, RandomBytes) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  config.header_timeout = config.body_timeout = config.idle_timeout = 100ms;
  start();
  const std::string real =
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: "
      "application/json\r\nContent-Length: 15\r\n\r\n"
      "{\"prompt\":\"abc\"}GET /b HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: "
      "chunked\r\n\r\n4\r\nabcd\r\n0\r\n\r\n";
  for (int round = 0; round < 300; ++round) {
    std::string bytes = real;
    if (round % 3 == 0) {
      bytes.resize(random() % 400);
      for (char& c : bytes) c = static_cast<char>(random());
    }
    for (unsigned i = random() % 6; i > 0 && !bytes.empty(); --i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    bytes.resize(random() % (bytes.size() + 1));
    RawClient client(server->port());
    client.send(bytes);
    if (round % 2 == 0) client.read("\r\n", 20ms);
  }
  expect_well();
  EXPECT_TRUE(eventually([this] { return server->num_connections() == 0; }));
}

TEST(HttpServerStart, SaysWhatIsWrong) {
  Echo hooks;
  ServerConfig taken;
  taken.port = 0;
  HttpServer first(taken, hooks);
  const auto error_of = [&](auto change) -> std::string {
    ServerConfig config;
    config.port = 0;
    change(config);
    try {
      HttpServer server(config, hooks);
    } catch (const InputError& e) {
      return e.param();
    }
    return "";
  };
  EXPECT_EQ(error_of([&](ServerConfig& c) { c.port = first.port(); }), "--port");
  EXPECT_EQ(error_of([](ServerConfig& c) { c.host = "no.such.host.invalid"; }), "--host");
  EXPECT_EQ(error_of([](ServerConfig& c) { c.tls_certificate = "/no/such/file"; }),
            "--ssl-certfile");
  EXPECT_EQ(error_of([](ServerConfig& c) { c.tls_key = "/no/such/file"; }), "--ssl-keyfile");
}

}  // namespace
}  // namespace tandem::server
