// A connection's Exchange: collects the answer for the connection to send.
#pragma once

#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "server/http/connection.h"

namespace tandem::server {

class ConnectionExchange final : public Exchange {
 public:
  ConnectionExchange(HttpRequest request, Connection& connection)
      : request_(std::move(request)),
        executor_(connection.stream_.get_executor()),
        connection_(&connection),
        max_unsent_(connection.config_.max_unsent_bytes) {}

  const HttpRequest& request() const override { return request_; }
  std::string take_body() override { return std::exchange(request_.body, {}); }

  void respond(HttpResponse response) override {
    if (connection_ == nullptr || head) return;
    head = std::move(response);
    ended = true;
    connection_->wake();
  }
  void start_stream(HttpResponse response) override {
    if (connection_ == nullptr || head) return;
    head = std::move(response);
    streaming = true;
    connection_->wake();
  }
  void write(std::string data) override {
    if (connection_ == nullptr || !streaming || ended || data.empty()) return;
    if (unsent.size() + data.size() > max_unsent_) {
      connection_->gone_ = true;  // it does not read
    } else {
      unsent += data;
    }
    connection_->wake();
  }
  void end() override {
    if (connection_ == nullptr || !streaming) return;
    ended = true;
    connection_->wake();
  }
  void on_gone(std::function<void()> callback) override { gone_callback_ = std::move(callback); }
  void post(std::function<void()> f) override { boost::asio::post(executor_, std::move(f)); }

  // The bytes written since the last call; chunked: as a chunk.
  std::string take_unsent(bool chunked) {
    if (unsent.empty() || !chunked) return std::exchange(unsent, {});
    char size[24];
    std::snprintf(size, sizeof size, "%zx\r\n", unsent.size());
    return size + std::exchange(unsent, {}) + "\r\n";
  }
  // The connection has done with it.
  void detach(bool complete) {
    connection_ = nullptr;
    const auto callback = std::exchange(gone_callback_, nullptr);
    if (!complete && callback) callback();
  }

  std::optional<HttpResponse> head;
  std::string unsent;
  bool streaming = false, ended = false;
  size_t bytes_sent = 0;
  size_t sent_ahead = 0;  // of the header, before there was one
  int version = 11;
  const std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();

 private:
  HttpRequest request_;
  Stream::executor_type executor_;
  Connection* connection_;
  size_t max_unsent_;
  std::function<void()> gone_callback_;
};

}  // namespace tandem::server
