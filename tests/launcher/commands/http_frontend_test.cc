// HttpFrontend: the order in which the HTTP server and its engine begin and end.
#include "launcher/commands/http_frontend.h"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/goldens/goldens.h"
#include "tests/support/network/raw_client.h"

namespace tandem::launcher {
namespace {

using namespace std::chrono_literals;
using test::RawClient;

// What happened to an engine, for when it is gone.
struct EngineLife {
  std::atomic<int> asked{0}, submitted{0}, cancelled{0};
  std::atomic<bool> gone{false}, used_when_gone{false};
};

class RecordedEngine final : public EngineApi {
 public:
  explicit RecordedEngine(std::shared_ptr<EngineLife> life, bool closed = false)
      : life_(std::move(life)), closed_(closed) {}
  ~RecordedEngine() override {
    life_->gone = true;
    for (const OnChunk& on_chunk : callbacks_) on_chunk(unavailable());
  }
  void submit(Request, OnChunk on_chunk) override {
    if (life_->gone) life_->used_when_gone = true;
    if (closed_) return on_chunk(unavailable());
    const std::lock_guard lock(mutex_);
    callbacks_.push_back(std::move(on_chunk));
    ++life_->submitted;
  }
  void cancel(const std::string&) override {
    if (life_->gone) life_->used_when_gone = true;
    ++life_->cancelled;
  }
  EngineStatus status() override {
    const std::shared_ptr<EngineLife> life = life_;
    ++life->asked;
    std::this_thread::sleep_for(30ms);
    if (life->gone) life->used_when_gone = true;
    return {.ready = true, .reason = "", .info = {}};
  }

 private:
  static proto::RequestChunk unavailable() {
    proto::RequestChunk chunk;
    chunk.set_finished(true);
    chunk.mutable_error()->set_type("unavailable_error");
    chunk.mutable_error()->set_message("closed");
    return chunk;
  }

  const std::shared_ptr<EngineLife> life_;
  const bool closed_;
  std::mutex mutex_;
  std::vector<OnChunk> callbacks_;
};

class HttpFrontendTest : public ::testing::Test {
 protected:
  HttpFrontendTest() {
    config.port = 0;
    config.threads = 2;
    config.access_log = false;
    config.model_names = {"model"};
  }
  void start(bool closed = false) {
    http = std::make_unique<HttpFrontend>(
        config, otlp, std::make_unique<RecordedEngine>(life, closed), processor);
  }
  std::string ask(const std::string& request, const std::string& body = "") const {
    RawClient client(http->port());
    client.send(message(request, body));
    return client.read_all(20000ms);
  }
  static std::string message(const std::string& request, const std::string& body = "") {
    return request + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
  }
  void wait_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 1000 && !condition(); ++i) std::this_thread::sleep_for(10ms);
    ASSERT_TRUE(condition());
  }

  const std::string completion = R"({"prompt": "a text"})";
  server::ServerConfig config;
  OtlpSettings otlp;
  std::shared_ptr<EngineLife> life = std::make_shared<EngineLife>();
  RequestProcessor processor{testing::golden_dir("bart-tiny"), 1};
  std::unique_ptr<HttpFrontend> http;
};

TEST_F(HttpFrontendTest, CountsConnectionsFromTheFirstOneOn) {
  start();
  EXPECT_NE(ask("GET /status").find("\"num_connections\":1"), std::string::npos);
}

// Load balancers probe to the last.
TEST_F(HttpFrontendTest, ProbesFindAnEngineUntilTheEnd) {
  for (int round = 0; round < 3; ++round) {
    life = std::make_shared<EngineLife>();
    start();
    std::vector<std::unique_ptr<RawClient>> probes;
    for (int i = 0; i < 40; ++i) {
      probes.push_back(std::make_unique<RawClient>(http->port()));
      probes.back()->send(message("GET /health"));
    }
    wait_until([&] { return life->asked > 4; });
    http.reset();
    EXPECT_TRUE(life->gone);
    EXPECT_FALSE(life->used_when_gone);
  }
}

// Its engine tells each request of the end, when nobody can be answered any more.
TEST_F(HttpFrontendTest, EndsWithRequestsUnderWay) {
  start();
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<RawClient>(http->port()));
    clients.back()->send(message("POST /v1/completions", completion));
  }
  wait_until([&] { return life->submitted == 8; });
  http.reset();
  EXPECT_TRUE(life->gone);
  EXPECT_FALSE(life->used_when_gone);
  EXPECT_EQ(life->cancelled, 8);
}

// Metrics are sent to the last, whoever listens; requests under way end with spans.
TEST_F(HttpFrontendTest, TelemetryFindsAnEngineUntilTheEnd) {
  const OtlpEndpoint nowhere{.url = "http://127.0.0.1:1/v1/x"};
  otlp.traces = otlp.metrics = nowhere;
  otlp.metric_interval = 1ms;
  config.traces.on = true;
  for (int round = 0; round < 3; ++round) {
    life = std::make_shared<EngineLife>();
    start();
    RawClient client(http->port());
    client.send(message("POST /v1/completions", completion));
    wait_until([&] { return life->submitted == 1 && life->asked > 3; });
    http.reset();
    EXPECT_TRUE(life->gone);
    EXPECT_FALSE(life->used_when_gone);
  }
}

TEST_F(HttpFrontendTest, AnEngineThatHasClosedIsA503) {
  start(/*closed=*/true);
  EXPECT_EQ(ask("POST /v1/completions", completion).substr(0, 12), "HTTP/1.1 503");
}

}  // namespace
}  // namespace tandem::launcher
