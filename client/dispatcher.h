// The thread that hands news to users: callbacks run here, never in CAF's pool. A message is
// acknowledged when its callback has ended, so the server's window of unacknowledged messages
// bounds the queue.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>

#include "client/client_core.h"
#include "client/stream.h"

namespace tandem::client {

class Dispatcher {
 public:
  Dispatcher() : thread_([this] { run(); }) {}
  ~Dispatcher() { finish(); }
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  using Info = std::promise<proto::ServerInfo>;
  // Called on its thread with a delivery's connection and number.
  void on_consumed(std::function<void(uint64_t, uint64_t)> consumed);
  // Registers a stream for its news. After finish() it fails at once.
  void add(const std::shared_ptr<Stream>& stream);
  void add_info(uint64_t query, Info promise);
  void deliver(Delivery delivery);
  // Delivers queued news, fails open streams, ends the thread. Not from a callback.
  void finish();
  bool is_own_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  void run();
  void hand_out(Delivery delivery);
  void fail_all();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Delivery> queue_;
  std::unordered_map<StreamKey, std::shared_ptr<Stream>> streams_;
  std::unordered_map<uint64_t, Info> infos_;
  std::function<void(uint64_t, uint64_t)> consumed_;
  bool finishing_ = false, finished_ = false;
  std::thread thread_;
};

}  // namespace tandem::client
