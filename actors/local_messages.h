// Messages and interfaces between the actors of the engine process. They never cross a process, and
// so are passed as they are.
#pragma once

#include <caf/all.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/network/messages.h"
#include "runtime/engine/local_streams.h"
#include "runtime/execution/engine_config.h"
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
