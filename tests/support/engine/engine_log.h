// What an engine hears, and what it says.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/core/engine_outbox.h"
#include "runtime/protocol/engine_event.pb.h"

namespace tandem::testing_support {

// Messages as they leave, in order, each with whom it is for.
class SaidByEngine final : public EngineOutbox {
 public:
  void to_scheduler(int replica, proto::SchedulerCommand command) override {
    all_.push_back("scheduler " + std::to_string(replica) + ": " + command.SerializeAsString());
  }
  void to_client(ClientId client, proto::ServerMessage message) override {
    all_.push_back("client " + std::to_string(client) + ": " + message.SerializeAsString());
  }
  void to_preparer(proto::SubmitRequest request) override {
    all_.push_back("preparer: " + request.SerializeAsString());
  }
  void to_reader(const std::string& request_id) override {
    all_.push_back("reader: " + request_id);
  }
  const std::vector<std::string>& all() const { return all_; }

 private:
  std::vector<std::string> all_;
};

struct EngineLog {
  std::vector<proto::EngineEvent> heard;
  SaidByEngine said;
};

}  // namespace tandem::testing_support
