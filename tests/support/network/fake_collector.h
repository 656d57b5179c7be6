// A collector of OpenTelemetry's without a network: keeps what it takes, and answers as it is told.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "server/telemetry/transport.h"

namespace tandem::test {

class FakeCollector {
 public:
  using Json = nlohmann::json;

  // The answers that come first; then everything is taken.
  void answer_with(std::vector<server::Delivery> deliveries) {
    const std::lock_guard lock(mutex_);
    answers_.assign(deliveries.begin(), deliveries.end());
  }
  // Until release() a message waits for its answer, or for the end of the server.
  void hold() { set_held(true); }
  void release() { set_held(false); }

  // Messages that came, whatever the answer was; waits until there are as many.
  std::vector<Json> wait_for(size_t messages) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return came_.size() >= messages; });
    return came_;
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return came_.size();
  }
  // Spans of all messages that were taken.
  std::vector<Json> spans() {
    const std::lock_guard lock(mutex_);
    std::vector<Json> out;
    for (const Json& message : taken_)
      for (const Json& span : message.at("resourceSpans")[0].at("scopeSpans")[0].at("spans"))
        out.push_back(span);
    return out;
  }

  static std::unique_ptr<server::OtlpTransport> transport(std::shared_ptr<FakeCollector> to) {
    return std::make_unique<Transport>(std::move(to));
  }

 private:
  class Transport final : public server::OtlpTransport {
   public:
    explicit Transport(std::shared_ptr<FakeCollector> to) : to_(std::move(to)) {}
    server::Delivery send(const std::string& json) override {
      std::unique_lock lock(to_->mutex_);
      to_->came_.push_back(json_from<Json>(json));
      to_->changed_.notify_all();
      to_->changed_.wait(lock, [&] { return !to_->held_ || to_->ending_; });
      if (to_->held_) return {.result = server::Delivery::Result::kFailed, .why = "held"};
      server::Delivery out;
      if (!to_->answers_.empty()) {
        out = to_->answers_.front();
        to_->answers_.pop_front();
      }
      if (out.result == server::Delivery::Result::kTaken) to_->taken_.push_back(to_->came_.back());
      return out;
    }
    void end_within(std::chrono::milliseconds) override {
      const std::lock_guard lock(to_->mutex_);
      to_->ending_ = true;
      to_->changed_.notify_all();
    }
    std::string address() const override { return "http://collector"; }

   private:
    std::shared_ptr<FakeCollector> to_;
  };

  void set_held(bool held) {
    const std::lock_guard lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Json> came_, taken_;
  std::deque<server::Delivery> answers_;
  bool held_ = false, ending_ = false;
};

// {"key": …, "value": …} of a list, as {key: the value}.
inline nlohmann::json attributes_of(const nlohmann::json& list) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& entry : list)
    out[entry.at("key").get<std::string>()] = entry.at("value").begin().value();
  return out;
}

}  // namespace tandem::test
