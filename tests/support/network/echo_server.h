// A server whose answers are easy to foresee, and the fixture around it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "server/http/body/form.h"
#include "server/http/http_server.h"
#include "server/http/socket_request.h"
#include "tests/support/network/raw_client.h"

namespace tandem::test {

using namespace std::chrono_literals;

// Answers "METHOD path body"; on /stream and /hang as the test says. /locked/… wants a key that
// nobody has; /live is open to everybody; /audio takes a form, and tells its file's size.
class Echo final : public server::ConnectionHooks {
 public:
  server::Admission admit(const server::HttpRequest& head) override {
    server::Admission admission;
    if (head.path.rfind("/locked", 0) == 0)
      admission.refusal = server::HttpResponse{.status = 401, .body = "no"};
    admission.takes_body = head.method == "POST";
    admission.open = head.path == "/live";
    admission.audio = admission.form = head.path == "/audio";
    return admission;
  }
  void handle(const std::shared_ptr<server::Exchange>& exchange) override {
    const server::HttpRequest& r = exchange->request();
    ++requests;
    if (r.path == "/socket") return answer_socket(exchange);
    if (r.path == "/stream" || r.path == "/hang") {
      exchange->on_gone([this] { ++gone; });
      if (r.path == "/stream") exchange->start_stream({.content_type = "text/event-stream"});
      const std::lock_guard lock(mutex);
      open.push_back(exchange);
      changed.notify_all();
      return;
    }
    std::string more = r.body;
    if (r.form)
      for (const server::FormPart& part : r.form->parts)
        more +=
            part.name + "=" + (part.file ? std::to_string(part.file->size()) : part.content) + " ";
    exchange->respond({.body = r.method + " " + r.path + " " + more, .content_type = "text/plain"});
  }
  // Says each message again; "end" ends it, "much" is followed by much, "hold" by nothing. When the
  // server is about to end, one that was told "finish" says so and ends.
  void answer_socket(const std::shared_ptr<server::Exchange>& exchange) {
    if (auto fault = server::socket_fault(exchange->request()))
      return exchange->respond(std::move(*fault));
    exchange->on_gone([this] { ++gone; });
    exchange->start_socket({.status = 101}, [this, exchange](const std::string& text) {
      ++messages;
      if (text == "end") return exchange->end_socket(4000, "as asked");
      if (text == "hold") exchange->hold(true);
      if (text == "finish")
        exchange->on_ending([exchange] {
          exchange->write("finished");
          exchange->end_socket(1001, "the last word");
        });
      exchange->write("said " + text);
      if (text == "much")
        for (int i = 0; i < 100; ++i) exchange->write(std::string(1 << 20, 'm'));
    });
  }
  void answered(const server::HttpRequest&, int status, size_t, double, bool complete) override {
    last_status = status;
    ++(complete ? complete_answers : broken_answers);
  }
  std::shared_ptr<server::Exchange> wait_for_open() {
    std::unique_lock lock(mutex);
    changed.wait_for(lock, 5s, [this] { return !open.empty(); });
    if (open.empty()) return nullptr;
    auto exchange = open.back();
    open.pop_back();
    return exchange;
  }

  std::atomic<int> requests{0}, messages{0}, gone{0}, complete_answers{0}, broken_answers{0},
      last_status{0};
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::shared_ptr<server::Exchange>> open;
};

inline bool eventually(const std::function<bool()>& what, std::chrono::milliseconds most = 5000ms) {
  const auto deadline = std::chrono::steady_clock::now() + most;
  while (!what()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

inline int status_of_answer(const std::string& answer) {
  return answer.size() > 12 && answer.compare(0, 5, "HTTP/") == 0 ? std::atoi(answer.c_str() + 9)
                                                                  : 0;
}

class HttpServerTest : public ::testing::Test {
 protected:
  HttpServerTest() {
    config.port = 0;
    config.max_header_bytes = 2048;
    config.max_body_bytes = 10000;
    config.header_timeout = config.body_timeout = config.write_timeout = 400ms;
    config.idle_timeout = 800ms;
  }
  void start() {
    server = std::make_unique<server::HttpServer>(config, hooks);
    server->start();
  }
  std::string ask(const std::string& bytes, const std::string& enough = "") {
    if (!server) start();
    RawClient client(server->port());
    client.send(bytes);
    return client.read(enough);
  }
  // It serves others as before.
  void expect_well() {
    EXPECT_EQ(status_of_answer(ask("GET /well HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")),
              200);
  }

  server::ServerConfig config;
  Echo hooks;
  std::unique_ptr<server::HttpServer> server;
};

}  // namespace tandem::test
