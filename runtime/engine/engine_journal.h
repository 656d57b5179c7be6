// The inputs of an engine as a log of proto::EngineEvent, and the log's way back into an engine.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "runtime/engine/core/engine_inputs.h"
#include "runtime/protocol/engine_event.pb.h"

namespace tandem {

// Passes each input on, once it has been written down: also one that is then refused. Synchronous;
// the thread of the engine behind it.
class EngineJournal final : public EngineInputs {
 public:
  // Called with each input, before it takes effect.
  using Write = std::function<void(proto::EngineEvent)>;

  // `inputs` outlives the journal.
  EngineJournal(EngineInputs& inputs, Write write) : inputs_(inputs), write_(std::move(write)) {}

  void client_connected(ClientId client, ClientKind kind) override;
  void client_gone(ClientId client, double now) override;
  void enter_unread(const std::string& request_id, double now) override;
  void reserve(ClientId client, const proto::SubmitRequest& submit, double now) override;
  void prepared(const std::string& request_id, PreparedRequest request, double now) override;
  void failed(const std::string& request_id, const InputError& error, double now) override;
  void resume(ClientId client, const proto::ResumeRequest& resume, double now) override;
  void cancel(const std::string& request_id, double now) override;
  void acknowledge(ClientId client, uint64_t message, double now) override;
  void replica_event(const proto::SchedulerEvent& event, double now) override;
  void replica_step(const proto::SchedulerEvent& event, const proto::StepOutput& step,
                    double now) override;
  void give_up(const std::string& reason, double now) override;
  void tick(double now) override;
  void drain() override;

 private:
  EngineInputs& inputs_;
  Write write_;
};

// Gives a log's events to another engine, which then says what the first one said. What an input
// throws was an answer to the first one's client; here it is dropped. Synchronous; one thread.
class EngineReplay {
 public:
  // Prepares a composite request again. Throws InputError, which fails the request.
  using Prepare = std::function<PreparedRequest(const proto::SubmitRequest&)>;

  // `inputs` outlives the replay.
  EngineReplay(EngineInputs& inputs, Prepare prepare)
      : inputs_(inputs), prepare_(std::move(prepare)) {}

  // Throws std::runtime_error for an event of a later version.
  void apply(const proto::EngineEvent& event);
  // Submissions whose preparation has not ended.
  size_t num_preparing() const { return preparing_.size(); }

 private:
  void enter_unread(const proto::EngineEvent& event);
  void reserve(const proto::EngineEvent& event);
  void prepared(const proto::EngineEvent& event);
  void failed(const proto::EngineEvent& event);

  EngineInputs& inputs_;
  Prepare prepare_;
  std::map<std::string, proto::SubmitRequest> preparing_;  // by id
};

}  // namespace tandem
