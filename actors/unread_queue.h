// Requests that nobody has read yet, on their way between the HTTP server and the engine actor. The
// actor takes them with whatever it does next, so that thousands that come and leave in a second
// wake no thread.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace tandem::actors {

// Any thread.
class UnreadQueue {
 public:
  struct Event {
    std::string id;
    std::function<void()> on_turn;  // empty: the request leaves
    double at = 0;                  // seconds on the engine's clock
  };

  // While it is not open, nobody may enter: the engine wants to know the requests.
  void set_open(bool open) {
    const MutexLock lock(mutex_);
    open_ = open;
  }
  bool enter(const std::string& id, std::function<void()> on_turn, double at) {
    const MutexLock lock(mutex_);
    if (!open_) return false;
    events_.push_back({id, std::move(on_turn), at});
    return true;
  }
  void leave(const std::string& id, double at) {
    const MutexLock lock(mutex_);
    events_.push_back({id, {}, at});
  }
  // What has happened since the last call, in order.
  std::vector<Event> take() {
    const MutexLock lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  Mutex mutex_;
  bool open_ GUARDED_BY(mutex_) = false;
  std::vector<Event> events_ GUARDED_BY(mutex_);
};

}  // namespace tandem::actors
