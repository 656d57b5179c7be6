// Messages and interfaces between the actors of the engine process. They never cross a process, and
// so are passed as they are.
#pragma once

#include <atomic>
#include <caf/all.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/cluster.h"
#include "actors/network/messages.h"
#include "base/mutex.h"
#include "runtime/engine/local_streams.h"
#include "runtime/request/request_processor.h"

namespace tandem::actors {

using SchedulerCommandMessage = Pb<proto::SchedulerCommand>;
using SchedulerEventMessage = Pb<proto::SchedulerEvent>;

struct Tick {};
struct Pump {};
// From InProcessEngine.
struct LocalSubmit {
  ClientMessage submit;
  std::optional<MediaSource> sound;  // its file, if the message has none
  std::shared_ptr<LocalStream> stream;
};
struct LocalCancel {
  std::string request_id;
};
// Answered once no stream of this process is open; none is opened afterwards.
struct LocalClose {};
// A request goes to a preparing actor, and comes back prepared or refused.
enum class PreparerKind : uint8_t { kText, kSound };
struct PrepareJob {
  PreparerKind kind = PreparerKind::kText;
  size_t preparer = 0;  // of its kind
  ClientMessage submit;
  std::optional<MediaSource> sound;  // as in LocalSubmit
};
struct PrepareResult {
  PreparerKind kind = PreparerKind::kText;
  size_t preparer = 0;
  std::string request_id;
  std::shared_ptr<PreparedRequest> request;  // null: refused
  std::shared_ptr<InputError> error;
};
struct GroupUp {
  uint64_t generation = 0;
  std::vector<WorkerHandle> workers;  // by rank
  CacheSize cache;
};
struct GroupDown {
  uint64_t generation = 0;
  std::string cause;
  bool crashed = false;
};
// A scheduler cannot go on with its group.
struct GroupFault {
  int replica = 0;
  uint64_t generation = 0;
  std::string cause;
};
struct LaunchExited {
  int replica = 0;
  uint64_t generation = 0;
  std::string status;
};
struct StartAll {};
struct ShutDown {};
struct Drain {};
struct GiveUp {
  std::string reason;
};

using SchedulerHandle = ReportHandle::extend<caf::reacts_to<GroupUp>, caf::reacts_to<GroupDown>,
                                             caf::reacts_to<SchedulerCommandMessage>,
                                             caf::reacts_to<Pump>, caf::reacts_to<Tick>>;
struct Wiring {
  std::vector<SchedulerHandle> schedulers;
};
using EngineActorHandle =
    EngineHandle::extend<caf::reacts_to<Wiring>, caf::reacts_to<PrepareResult>,
                         caf::reacts_to<SchedulerEventMessage, WorkerReportMessage>,
                         caf::reacts_to<LocalSubmit>, caf::reacts_to<LocalCancel>,
                         caf::reacts_to<LocalClose>, caf::reacts_to<Drain>, caf::reacts_to<GiveUp>,
                         caf::reacts_to<Tick>>;
using SupervisorHandle =
    ReportHandle::extend<caf::reacts_to<StartAll>, caf::reacts_to<ShutDown>,
                         caf::reacts_to<GroupFault>, caf::reacts_to<LaunchExited>,
                         caf::reacts_to<Pump>, caf::reacts_to<Tick>>;

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

// What all actors of a cluster share; immutable but for what is thread-safe itself.
struct Shared {
  ClusterConfig config;
  std::shared_ptr<RequestProcessor> processor;
  DType dtype = DType::kF32;
  StatusBoard board;
  InfoBoard info;
};

EngineActorHandle spawn_engine(caf::actor_system& system, std::shared_ptr<Shared> shared);
SchedulerHandle spawn_scheduler(caf::actor_system& system, std::shared_ptr<Shared> shared,
                                int replica, EngineActorHandle engine);
// The supervisor tells the scheduler of a fault's consequences; the fault itself comes from it.
SupervisorHandle spawn_supervisor(caf::actor_system& system, std::shared_ptr<Shared> shared,
                                  std::vector<SchedulerHandle> schedulers, EngineActorHandle engine,
                                  std::shared_ptr<GroupLauncher> launcher);
// Runs on a thread of its own. Says hello to the supervisor as this rank.
struct WorkerIdentity {
  int replica = 0;
  uint64_t generation = 0;
  int rank = 0;
  std::string crash_record;
  std::shared_ptr<std::atomic<bool>> again = {};  // set if it is stopped to join once more
};
WorkerHandle spawn_worker(caf::actor_system& system, ReportHandle supervisor,
                          WorkerIdentity identity, std::shared_ptr<Worker> worker);

}  // namespace tandem::actors

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::Tick)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::Pump)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::LocalSubmit)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::LocalCancel)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::LocalClose)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::PrepareJob)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::PrepareResult)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::GroupUp)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::GroupDown)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::GroupFault)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::LaunchExited)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::StartAll)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::ShutDown)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::Drain)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::GiveUp)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(tandem::actors::Wiring)
