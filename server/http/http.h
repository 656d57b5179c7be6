// HTTP as handlers see it: no sockets, no library.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/trace_context.h"

namespace tandem::server {

class BodyShare;
struct Form;
using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;
  std::string path;   // decoded, without the query, --root-path and a slash at its end
  std::string query;  // as it was sent
  Headers headers;    // names in lower case
  std::string body;
  std::shared_ptr<Form> form;  // instead of a body, of a route that takes a file
  std::string remote;          // address of the peer
  std::string id;  // x-request-id: the client's if it is fit for a log, else a random one
  TraceContext trace;
  bool secure = false;
  std::shared_ptr<BodyShare> memory;  // what the body takes of the server's; null: nobody counts

  // Null if there is none.
  const std::string* header(std::string_view name) const {
    for (const auto& [key, value] : headers)
      if (key == name) return &value;
    return nullptr;
  }
};

struct HttpResponse {
  int status = 200;
  std::string body = {};
  std::string content_type = "application/json";
  Headers headers = {};
};

// One request and its answer: either respond(), or start_stream(), write() any number of times, and
// end(); or start_socket(), and each write() is a message. All functions but post() belong to the
// connection's own strand, where handlers are called. Once the client has gone they do nothing.
class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual const HttpRequest& request() const = 0;
  // Moves the body out of the request, so that a large one is not copied.
  virtual std::string take_body() = 0;
  virtual void respond(HttpResponse response) = 0;
  virtual void start_stream(HttpResponse head) = 0;  // its body is empty
  // Makes a WebSocket of it, if socket_fault() has nothing against the request. on_message gets
  // each text that the client sends. head: its headers are the answer's.
  using OnMessage = std::function<void(std::string)>;
  virtual void start_socket(HttpResponse head, OnMessage on_message) = 0;
  // While true, no more messages are read.
  virtual void hold(bool held) = 0;
  // end() with a code and a reason (RFC 6455, 7.4).
  virtual void end_socket(uint16_t code, std::string reason) = 0;
  virtual void write(std::string data) = 0;
  virtual void end() = 0;
  // When the application was given it, which may be long before its body is parsed.
  virtual std::chrono::steady_clock::time_point begun() const {
    return std::chrono::steady_clock::now();
  }
  // The id of its place in the engine's line, from where it was before it was read; empty: it had
  // none, or this has been called before.
  virtual std::string take_place() { return {}; }
  // Called at most once, if the client goes away, or does not read, before the answer has ended;
  // and when a WebSocket has ended.
  virtual void on_gone(std::function<void()> callback) = 0;
  // Called at most once, when the server is about to end: whoever has a WebSocket finishes what it
  // has begun, and ends it.
  virtual void on_ending(std::function<void()> callback) = 0;
  // Runs f on the strand. Any thread.
  virtual void post(std::function<void()> f) = 0;
};

}  // namespace tandem::server
