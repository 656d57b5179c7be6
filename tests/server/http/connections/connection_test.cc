// A connection's edges: keys and memory before bodies, pipelines, Host, half-closes, and who makes
// room when there are too many.
#include "server/http/connections/connection.h"

#include <gtest/gtest.h>

#include "tests/support/network/echo_server.h"

namespace tandem::server {
namespace {

using namespace std::chrono_literals;
using test::eventually;
using test::HttpServerTest;
using test::RawClient;
using test::status_of_answer;
using Clock = std::chrono::steady_clock;

int count(const std::string& text, const std::string& what) {
  int n = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++n;
  return n;
}

std::string post(const std::string& path, const std::string& body, const std::string& more = "") {
  return "POST " + path + " HTTP/1.1\r\nHost: a\r\n" + more +
         "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

TEST_F(HttpServerTest, TheKeyComesBeforeTheBody) {
  start();
  RawClient waits(server->port());
  waits.send(
      "POST /locked HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\nExpect: 100-continue\r\n\r\n");
  const std::string answer = waits.read_all();
  EXPECT_EQ(status_of_answer(answer), 401) << "and no 100";
  EXPECT_NE(answer.find("Connection: close"), std::string::npos);
  EXPECT_TRUE(waits.closed());
  // Whoever sends it all the same reads the answer.
  for (const std::string& bytes :
       {post("/locked", std::string(9000, 'b')),
        std::string("POST /locked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n")})
    EXPECT_EQ(status_of_answer(ask(bytes)), 401);
  // Nothing is left of a request without a body, so the connection goes on.
  RawClient client(server->port());
  for (int i = 0; i < 2; ++i) {
    client.send("GET /locked HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(status_of_answer(client.read("no")), 401);
  }
  EXPECT_EQ(hooks.requests, 0);
}

TEST_F(HttpServerTest, RoutesWithoutBodiesTakeNone) {
  EXPECT_EQ(status_of_answer(ask("GET /live HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n")),
            413);
  EXPECT_EQ(status_of_answer(ask("GET /live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                                 "Content-Length: 3\r\n\r\nabc")),
            200);
}

TEST_F(HttpServerTest, BodiesShareABudget) {
  config.max_body_memory = 20000;
  config.body_timeout = 5s;
  start();
  RawClient first(server->port()), second(server->port());
  first.send(post("/hang", std::string(9000, 'a')));
  auto exchange = hooks.wait_for_open();
  ASSERT_NE(exchange, nullptr);
  second.send(post("/hang", std::string(9000, 'a')));
  ASSERT_NE(hooks.wait_for_open(), nullptr);
  // 2000 bytes are left.
  const std::string refused = ask(post("/a", std::string(2500, 'a')));
  EXPECT_EQ(status_of_answer(refused), 429);
  EXPECT_NE(refused.find("retry-after"), std::string::npos) << refused;
  EXPECT_NE(refused.find("--max-body-memory"), std::string::npos);
  const std::string asked =
      ask("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 2500\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(status_of_answer(asked), 429) << "and no 100";
  std::string chunks = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 10; ++i) chunks += "200\r\n" + std::string(512, 'b') + "\r\n";
  EXPECT_EQ(status_of_answer(ask(chunks)), 429);
  EXPECT_EQ(status_of_answer(ask(post("/a", std::string(900, 'a'), "Connection: close\r\n"))), 200);
  // The memory comes back with the request.
  exchange->post([exchange] { exchange->respond({}); });
  exchange.reset();
  EXPECT_EQ(status_of_answer(first.read("\r\n\r\n")), 200);
  EXPECT_TRUE(eventually([&] {
    return status_of_answer(ask(post("/a", std::string(2500, 'a'), "Connection: close\r\n"))) ==
           200;
  }));
}

// What arrives counts, not what is announced.
TEST_F(HttpServerTest, AnnouncedBodiesTakeNoMemory) {
  config.max_body_memory = 20000;
  config.body_timeout = 5s;
  start();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 10; ++i) {
    clients.push_back(std::make_unique<RawClient>(server->port()));
    clients.back()->send("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 9000\r\n\r\nabc");
  }
  EXPECT_EQ(status_of_answer(ask(post("/a", std::string(9000, 'a'), "Connection: close\r\n"))),
            200);
}

TEST_F(HttpServerTest, SilentConnectionsHaveTheHeaderTimeout) {
  config.header_timeout = 200ms;
  config.idle_timeout = 5s;
  start();
  const auto begun = Clock::now();
  RawClient silent(server->port());
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_TRUE(silent.closed());
  EXPECT_LT(Clock::now() - begun, 3s);
  // Between requests it is the other one.
  RawClient client(server->port());
  for (int i = 0; i < 2; ++i) {
    client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    EXPECT_EQ(status_of_answer(client.read("GET /a")), 200);
    std::this_thread::sleep_for(500ms);
  }
}

TEST_F(HttpServerTest, PipelinedRequestsAreAllAnswered) {
  std::string all;
  for (int i = 0; i < 100; ++i)
    all += i % 3 == 0 ? post("/p" + std::to_string(i), "body")
                      : "GET /p" + std::to_string(i) + " HTTP/1.1\r\nHost: a\r\n\r\n";
  all += "GET /p100 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
  const std::string answers = ask(all);
  EXPECT_EQ(count(answers, "HTTP/1.1 200 OK"), 101);
  size_t at = 0;
  for (int i = 0; i <= 100; ++i) {
    const std::string path = " /p" + std::to_string(i) + " ";
    at = answers.find(path, at);
    ASSERT_NE(at, std::string::npos) << path << "is missing, or not in its place";
  }
}

TEST_F(HttpServerTest, PipelinedRequestsWaitForEachOther) {
  start();
  RawClient client(server->port());
  client.send("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
  auto exchange = hooks.wait_for_open();
  ASSERT_NE(exchange, nullptr);
  client.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(client.read("GET /a", 100ms), "");
  exchange->post([exchange] { exchange->respond({.body = "first"}); });
  const std::string answers = client.read("GET /b");
  EXPECT_LT(answers.find("first"), answers.find("GET /a"));
  EXPECT_LT(answers.find("GET /a"), answers.find("GET /b"));
}

TEST_F(HttpServerTest, HostHeaders) {
  const auto status = [this](const std::string& line, const std::string& version = "1.1") {
    return status_of_answer(
        ask("GET /a HTTP/" + version + "\r\n" + line + "Connection: close\r\n\r\n"));
  };
  for (const char* good :
       {"Host: a\r\n", "host: example.org:8000\r\n", "Host: 127.0.0.1:1\r\n",
        "Host: [::1]:8000\r\n", "Host: [::ffff:1.2.3.4]\r\n", "Host: a_b-c.d\r\n", "Host: a:\r\n"})
    EXPECT_EQ(status(good), 200) << good;
  for (const char* bad :
       {"", "Host: a\r\nHost: a\r\n", "Host: a\r\nX: y\r\nhOST: b\r\n", "Host: \r\n",
        "Host: a b\r\n", "Host: a/b\r\n", "Host: a@b\r\n", "Host: a:b\r\n", "Host: a:123456\r\n",
        "Host: [::1\r\n", "Host: []\r\n", "Host: [::1]x\r\n", "Host: :80\r\n",
        "Host: a,b:80:90\r\n", "Host: \xc3\xa4\r\n"})
    EXPECT_EQ(status(bad), 400) << bad;
  EXPECT_EQ(status("", "1.0"), 200);
  EXPECT_EQ(status("Host: a\r\nHost: b\r\n", "1.0"), 400);
}

TEST_F(HttpServerTest, ClientsThatHalfCloseAreAnswered) {
  start();
  for (const char* version : {"1.0", "1.1"}) {
    const std::string head = std::string(" HTTP/") + version + "\r\nHost: a\r\n\r\n";
    RawClient quick(server->port());
    quick.send("GET /a" + head);
    quick.shut_down();
    EXPECT_EQ(status_of_answer(quick.read_all()), 200);
    EXPECT_TRUE(quick.closed());

    RawClient slow(server->port());
    slow.send("GET /hang" + head);
    slow.shut_down();
    auto exchange = hooks.wait_for_open();
    ASSERT_NE(exchange, nullptr);
    std::this_thread::sleep_for(600ms);  // it has been looked for by then
    exchange->post([exchange] { exchange->respond({.body = "at last"}); });
    const std::string answer = slow.read_all();
    EXPECT_EQ(answer.rfind(std::string("HTTP/") + version + " 200 OK\r\n", 0), 0u) << answer;
    EXPECT_EQ(count(answer, "HTTP/"), 1);
    EXPECT_NE(answer.find("at last"), std::string::npos);
    EXPECT_TRUE(slow.closed());

    RawClient stream(server->port());
    stream.send("GET /stream" + head);
    stream.shut_down();
    exchange = hooks.wait_for_open();
    ASSERT_NE(exchange, nullptr);
    std::this_thread::sleep_for(600ms);
    for (const char* piece : {"data: 1\n\n", "data: 2\n\n"})
      exchange->post([exchange, piece] { exchange->write(piece); });
    exchange->post([exchange] { exchange->end(); });
    const std::string text = stream.read_all();
    EXPECT_NE(text.find("data: 1\n\n"), std::string::npos) << text;
    EXPECT_NE(text.find("data: 2\n\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("0\r\n\r\n") != text.npos, std::string(version) == "1.1");
  }
  EXPECT_EQ(hooks.gone, 0);
  // All of a pipeline, though nothing can follow.
  RawClient several(server->port());
  several.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n");
  several.shut_down();
  EXPECT_EQ(count(several.read_all(), "200 OK"), 2);
}

// They close like those that half-close, but answer with a reset.
TEST_F(HttpServerTest, ClientsThatCloseAreCancelledSoon) {
  start();
  for (const char* path : {"/hang", "/stream"}) {
    const int before = hooks.gone;
    RawClient client(server->port());
    client.send(std::string("GET ") + path + " HTTP/1.1\r\nHost: a\r\n\r\n");
    ASSERT_NE(hooks.wait_for_open(), nullptr);
    // Nothing is unread, or the kernel would send a reset at once.
    if (path == std::string("/stream")) client.read("\r\n\r\n");
    client.close();
    const auto begun = Clock::now();
    EXPECT_TRUE(eventually([&] { return hooks.gone == before + 1; })) << path;
    EXPECT_LT(Clock::now() - begun, 2s);
  }
  EXPECT_TRUE(eventually([this] { return server->num_connections() == 0; }));
}

class Crowd : public HttpServerTest {
 protected:
  Crowd() {
    config.max_connections = 4;
    config.header_timeout = config.body_timeout = config.idle_timeout = 20s;
  }
  RawClient& add(const std::string& bytes, const std::string& enough = "") {
    clients.push_back(std::make_unique<RawClient>(server->port()));
    clients.back()->send(bytes);
    if (!enough.empty()) {
      EXPECT_NE(clients.back()->read(enough).find(enough), std::string::npos);
    }
    return *clients.back();
  }
  std::vector<std::unique_ptr<RawClient>> clients;
};

TEST_F(Crowd, TheLongestIdleMakesRoom) {
  start();
  const std::string get = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
  for (int i = 0; i < 4; ++i) add(get, "GET /a");
  clients[0]->send(get);  // not the longest any more
  clients[0]->read("GET /a");
  add(get, "GET /a");
  EXPECT_EQ(clients[1]->read_all(), "");
  EXPECT_TRUE(clients[1]->closed());
  for (const int i : {0, 2, 3, 4}) {
    clients[static_cast<size_t>(i)]->send(get);
    EXPECT_EQ(status_of_answer(clients[static_cast<size_t>(i)]->read("GET /a")), 200) << i;
  }
  EXPECT_TRUE(eventually([this] { return server->num_connections() == 4; }));
}

TEST_F(Crowd, WhoeverSaysNothingKeepsNobodyOut) {
  start();
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 20; ++i) add(round % 2 == 0 ? "" : "GET / HTTP/1.1\r\n");
    EXPECT_EQ(status_of_answer(ask("GET /live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")),
              200);
    expect_well();
  }
  EXPECT_TRUE(eventually([this] { return server->num_connections() <= 4 + 32; }));
}

TEST_F(Crowd, BodiesThatDoNotComeKeepNobodyOut) {
  start();
  for (int i = 0; i < 4; ++i)
    add("POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n",
        "100 Continue\r\n\r\n");
  clients[3]->send("abc");
  std::this_thread::sleep_for(200ms);
  // There is no idle one, so the upload that has taken longest makes room.
  expect_well();
  EXPECT_EQ(clients[0]->read_all(1s), "");
  EXPECT_TRUE(clients[0]->closed());
  clients[3]->send("defghij");
  EXPECT_EQ(status_of_answer(clients[3]->read("abcdefghij")), 200);
}

TEST_F(Crowd, HealthIsAnsweredBesideRequestsUnderWay) {
  start();
  for (int i = 0; i < 4; ++i) {
    add("GET /hang HTTP/1.1\r\nHost: a\r\n\r\n");
    ASSERT_NE(hooks.wait_for_open(), nullptr);
  }
  EXPECT_EQ(status_of_answer(ask("GET /live HTTP/1.1\r\nHost: a\r\n\r\n")), 200);
  const std::string refused = ask("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(status_of_answer(refused), 503);
  EXPECT_NE(refused.find("retry-after"), std::string::npos);
  // The others are bounded too.
  for (int i = 0; i < 100; ++i) add("");
  EXPECT_TRUE(eventually([this] { return server->num_connections() <= 4 + 32; }));
  EXPECT_EQ(status_of_answer(ask("GET /live HTTP/1.1\r\nHost: a\r\n\r\n")), 200);
  EXPECT_EQ(hooks.gone, 0) << "requests under way make no room";
}

}  // namespace
}  // namespace tandem::server
