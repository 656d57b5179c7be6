// The decisions of an engine, and the truth about its requests. Its parts: Intake (admission),
// ReplicaTable (replicas and their requests), PartsTable (composite requests), StreamTable (output
// to clients). Synchronous; one thread; no clock of its own, no I/O. Its inputs come with the time
// (EngineInputs); messages leave through EngineOutbox. Driven by the EngineActor, and in one thread
// by EngineShell. The contract: docs/cluster.md.
//
// Recovery. The core knows every token that it has taken. If a replica goes down, its requests
// start again on another one, or on the same one once it is up. The known tokens are then part of
// the prompt. Late messages of the old workers carry an older generation and are dropped.
#pragma once

#include <string>

#include "base/error.h"
#include "base/profile/profile.h"
#include "runtime/engine/core/engine_inputs.h"
#include "runtime/engine/core/engine_outbox.h"
#include "runtime/engine/core/intake.h"
#include "runtime/engine/core/parts_table.h"
#include "runtime/engine/core/replica_table.h"
#include "runtime/engine/core/request_ends.h"
#include "runtime/engine/core/request_table.h"
#include "runtime/engine/core/stream_table.h"

namespace tandem {

struct EngineCoreConfig {
  int num_replicas = 1;
  int max_requests = 65536;  // unfinished ones; more are refused as overload
  // Of files of sound that wait to be read; more are refused as overload, but for a single one.
  size_t max_sound_bytes = size_t{2} << 30;
  // Of sound whose spectrograms are in memory, 115 MB an hour at 80 bins; more waits
  // (takes_sound()).
  double max_sound_seconds = 4 * 3600;
  double orphan_timeout = 30;  // seconds that a request whose client is gone goes on
  double retention = 60;       // seconds that a finished one waits for its client
  size_t max_retained = 4096;  // finished ones whose client is gone
  AdmissionConfig admission = {};
  // Sequences that a replica gets at once: enough for a full batch. The others wait here, where
  // their order can change. 0: no limit.
  int most_at_replica = 0;
  int least_at_replica = 0;  // where fewer take less time; 0: they do not
};

class EngineCore final : public EngineInputs {
 public:
  // `tokenizer` and `outbox` outlive the core.
  EngineCore(const EngineCoreConfig& config, const Tokenizer& tokenizer, EngineOutbox& outbox);

  void client_connected(ClientId client, ClientKind kind = ClientKind::kRemote) override;
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
  void drain() override { intake_.drain(); }

  // Whether one more sound is to be read now: else its request waits, and this is asked again
  // later.
  bool takes_sound() const {
    return records_.sound_seconds() == 0 || records_.sound_seconds() < config_.max_sound_seconds;
  }
  // Whether anybody still wants what is being prepared.
  bool awaits(const std::string& request_id) const;
  // Whether a request that comes now waits for others: it need not be read yet.
  bool crowded() const { return config_.most_at_replica > 0 && intake_.num_held() >= ahead_; }
  bool draining() const { return intake_.draining(); }
  // Nothing unfinished, and nothing that a connected client has not acknowledged.
  bool idle() const { return records_.idle() && intake_.num_unread() == 0; }
  size_t num_requests() const { return records_.size(); }  // kept in any state
  size_t num_unfinished() const { return intake_.num_unfinished(); }
  void fill_info(proto::ServerInfo& info, double now);
  void check_integrity() const;

 private:
  void admit(ClientId client, const proto::SubmitRequest& submit, double now);
  void take_output(const proto::SchedulerEvent& event, const proto::SequenceGroupOutput& output,
                   double now);
  void replica_down(const proto::SchedulerEvent& event, double now);
  void settle(double now);
  RequestRecord* find_of_client(const std::string& id);

  EngineCoreConfig config_;
  size_t ahead_;           // requests that are to be ready for a replica while unread ones wait
  ProfileGroup* profile_;  // null: none is wanted
  Intake intake_;
  EngineOutbox& outbox_;
  ReplicaTable replicas_;
  StreamTable streams_;
  RequestTable records_;
  RequestEnds ends_;
  PartsTable parts_;
  const Tokenizer& tokenizer_;
};

}  // namespace tandem
