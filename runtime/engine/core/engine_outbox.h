// Where what the engine core has to say goes: actors' mailboxes, or whoever drives it in one
// thread.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

using ClientId = uint64_t;  // of a connection; never used twice

// Called within the core's methods; must not call the core.
class EngineOutbox {
 public:
  virtual ~EngineOutbox() = default;
  virtual void to_scheduler(int replica, proto::SchedulerCommand command) = 0;
  virtual void to_client(ClientId client, proto::ServerMessage message) = 0;
  // A request of the engine's own is to be prepared: prepared() or failed() ends that, as for those
  // of clients.
  virtual void to_preparer(proto::SubmitRequest request) = 0;
  // The turn of a request that was let in unread has come: reserve() or cancel() is to follow soon.
  // Only whoever calls enter_unread() hears it.
  virtual void to_reader(const std::string& request_id) { static_cast<void>(request_id); }
};

}  // namespace tandem
