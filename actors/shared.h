// What all actors of a cluster share.
#pragma once

#include <caf/all.hpp>
#include <chrono>
#include <functional>
#include <memory>

#include "actors/cluster.h"
#include "actors/unread_queue.h"
#include "base/mutex.h"
#include "runtime/request/request_processor.h"

namespace tandem::actors {

// For set_exception_handler(): an exception in an actor of the engine is a broken invariant.
std::function<caf::error(std::exception_ptr&)> stop_loudly(const char* actor);

// Seconds on the engine process's clock.
double now();
// The next Tick is due after this time.
inline constexpr std::chrono::milliseconds kTickInterval{100};

// The status that threads outside of CAF wait for.
class StatusBoard {
 public:
  template <class Change>
  void update(const Change& change) {
    {
      const MutexLock lock(mutex_);
      change(status_);
    }
    changed_.notify_all();
  }
  ClusterStatus get() const {
    const MutexLock lock(mutex_);
    return status_;
  }
  ClusterStatus wait(const ClusterStatus& seen, std::chrono::milliseconds most) const {
    const auto deadline = std::chrono::steady_clock::now() + most;
    const MutexLock lock(mutex_);
    while (status_ == seen && changed_.wait_until(mutex_, deadline)) continue;
    return status_;
  }

 private:
  mutable Mutex mutex_;
  mutable CondVar changed_;
  ClusterStatus status_ GUARDED_BY(mutex_);
};

// The engine's figures, as of its last tick.
class InfoBoard {
 public:
  void set(proto::ServerInfo info) {
    const MutexLock lock(mutex_);
    info_ = std::move(info);
  }
  proto::ServerInfo get() const {
    const MutexLock lock(mutex_);
    return info_;
  }

 private:
  mutable Mutex mutex_;
  proto::ServerInfo info_ GUARDED_BY(mutex_);
};

// Immutable but for what is thread-safe itself.
struct Shared {
  ClusterConfig config;
  std::shared_ptr<RequestProcessor> processor;
  DType dtype = DType::kF32;
  StatusBoard board;
  InfoBoard info;
  UnreadQueue unread;
};

}  // namespace tandem::actors
