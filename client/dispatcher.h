// The thread that hands news to users: callbacks run here, never in CAF's pool. A message is
// acknowledged when its callback has ended, so the server's window of unacknowledged messages
// bounds the queue.
#pragma once

#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <unordered_map>

#include "base/mutex.h"
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

  Mutex mutex_;
  CondVar changed_;
  std::deque<Delivery> queue_ GUARDED_BY(mutex_);
  std::unordered_map<StreamKey, std::shared_ptr<Stream>> streams_ GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, Info> infos_ GUARDED_BY(mutex_);
  std::function<void(uint64_t, uint64_t)> consumed_ GUARDED_BY(mutex_);
  bool finishing_ GUARDED_BY(mutex_) = false;
  bool finished_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tandem::client
