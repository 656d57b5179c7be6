// A connection's Exchange: collects the answer for the connection to send.
#pragma once

#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/http/connections/channel.h"
#include "server/http/errors.h"
#include "server/http/http.h"

namespace tandem::server {

class ConnectionExchange final : public Exchange {
 public:
  ConnectionExchange(HttpRequest request, Channel& channel)
      : request_(std::move(request)),
        executor_(channel.executor()),
        channel_(&channel),
        max_unsent_(channel.config().max_unsent_bytes) {}

  const HttpRequest& request() const override { return request_; }
  std::string take_body() override { return std::exchange(request_.body, {}); }

  void respond(HttpResponse response) override {
    if (channel_ == nullptr || head) return;
    head = std::move(response);
    ended = true;
    channel_->wake();
  }
  void start_stream(HttpResponse response) override {
    if (channel_ == nullptr || head) return;
    head = std::move(response);
    streaming = true;
    channel_->wake();
  }
  void start_socket(HttpResponse response, OnMessage on_message) override {
    if (channel_ == nullptr || head) return;
    // Frames come after the answer, and an older client has none.
    if (version < 11 || channel_->input().size() > 0)
      return respond(error_response(400, "a WebSocket begins when its request is answered"));
    head = std::move(response);
    was_socket_ = true;
    on_message_ = std::move(on_message);
  }
  void hold(bool held) override {
    if (std::exchange(held_, held) != held && channel_ != nullptr) channel_->wake();
  }
  void end_socket(uint16_t code, std::string reason) override {
    if (channel_ == nullptr || !socket() || ended) return;
    close_code_ = code;
    close_reason_ = std::move(reason);
    ended = true;
    channel_->wake();
  }
  void write(std::string data) override {
    if (channel_ == nullptr || ended || data.empty()) return;
    if (socket()) {
      messages_.push_back(std::move(data));
      return channel_->wake();
    }
    if (!streaming) return;
    if (unsent.size() + data.size() > max_unsent_) {
      channel_->give_up();  // it does not read
    } else {
      unsent += data;
    }
    channel_->wake();
  }
  void end() override {
    if (socket()) return end_socket(1000, "");
    if (channel_ == nullptr || !streaming) return;
    ended = true;
    channel_->wake();
  }
  void on_gone(std::function<void()> callback) override { gone_callback_ = std::move(callback); }
  void on_ending(std::function<void()> callback) override {
    ending_callback_ = std::move(callback);
  }
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
    channel_ = nullptr;
    const auto callback = std::exchange(gone_callback_, nullptr);
    ending_callback_ = nullptr;
    const OnMessage last = std::exchange(on_message_, nullptr);
    if ((!complete || was_socket_) && callback) callback();
  }
  // The server is about to end.
  void tell_ending() {
    if (const auto callback = std::exchange(ending_callback_, nullptr)) callback();
  }
  bool socket() const { return on_message_ != nullptr; }
  // Of a socket: what to do with its messages, those written since the last call, and its end.
  const OnMessage& on_message() const { return on_message_; }
  std::vector<std::string> take_messages() { return std::exchange(messages_, {}); }
  bool held() const { return held_; }
  uint16_t close_code() const { return close_code_; }
  const std::string& close_reason() const { return close_reason_; }

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
  Channel* channel_;
  size_t max_unsent_;
  std::function<void()> gone_callback_, ending_callback_;
  OnMessage on_message_;  // of a socket
  std::vector<std::string> messages_;
  bool was_socket_ = false, held_ = false;
  uint16_t close_code_ = 1000;
  std::string close_reason_;
};

}  // namespace tandem::server
