// The loop of one replica, receive → schedule → forward → process (step_loop.cc has it on a page):
// when the next step goes to the workers, and what their answers mean. The decisions of a
// SchedulerActor, and of EngineShell. The scheduler keeps the ledger of steps in flight.
// Synchronous; one thread; no clock, no I/O. One object per generation of the worker group: when
// the group dies, so does this, and the engine core adds the requests anew.
//
// Run-ahead: while a step computes, the next one is scheduled and sent; tokens reach it on the
// workers. What ends by a token (EOS, stop token, length) ends here at once; stop strings are the
// engine's, and reach this as finish_sequence.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/profile/profile.h"
#include "runtime/execution/step_runner.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/protocol/token_histogram.h"
#include "runtime/scheduling/scheduler.h"

namespace tandem {

class StepLoop {
 public:
  // vocab_size: what workers may answer with.
  StepLoop(const SchedulerConfig& config, int vocab_size);

  // A turn with a runner on this thread: launches steps while there is credit, waits for the oldest
  // one's answer, and processes it. Returns that answer, or nothing if no step is in flight. now:
  // in seconds. Throws as launch(), finish() and on_output().
  std::optional<proto::StepOutput> turn(StepRunner& runner, const std::function<double()>& now);

  // What the engine core wants. Returns what it is to be told of that: a request that can never run
  // is rejected.
  std::optional<proto::SchedulerEvent> on_command(const proto::SchedulerCommand& command);
  // Throws InputError if the request can never run. One that is to run alone starts when no step is
  // in flight; until then, nothing is scheduled.
  void add(const proto::AddRequest& request);
  void abort(const std::string& request_id);
  void finish_sequence(const std::string& request_id, int64_t seq_id);

  // The next step, if there is credit for one and something to do in it.
  std::optional<proto::StepInput> next_step(double now);
  // The same, into an empty message; false: there is no step, and nothing is sent.
  bool next_step(double now, proto::StepInput& step);
  // With encoders on ranks of their own, behind next_step(): the next step for one of them, into an
  // empty message, and the rank. Nothing if there is no work or no credit.
  std::optional<int> next_encoder_step(double now, proto::StepInput& step);
  // That rank's answer to the oldest step that it was sent. Whether the engine core is to hear it,
  // with step_event(): requests end with it. Throws as on_output().
  bool on_encoder_output(int rank, const proto::StepOutput& output, double now);
  bool is_encoder_rank(int rank) const { return scheduler_.encoder_steps().is_encoder_rank(rank); }
  // A worker's answer to the oldest step in flight. Throws std::runtime_error if it is not one:
  // then the worker cannot be trusted any more.
  void on_output(const proto::StepOutput& output);

  // What the engine core is told with the step that was completed last: searches that have ended,
  // preemptions, statistics.
  proto::SchedulerEvent step_event();

  int steps_in_flight() const { return scheduler_.steps_in_flight().size(); }
  uint64_t steps_completed() const { return steps_completed_; }
  // When the oldest step in flight was sent, or became the oldest.
  double waiting_since() const { return waiting_since_; }
  void set_waiting_since(double now) { waiting_since_ = now; }
  // Some rank has been at its oldest step for longer.
  bool waits_longer_than(double seconds, double now) const;
  // Of all steps in flight, encoders' too.
  std::vector<std::string> in_flight_request_ids() const;
  proto::SchedulerStats stats() const;
  const Scheduler& scheduler() const { return scheduler_; }
  bool has_unfinished() const { return alone_ || scheduler_.has_unfinished(); }
  void check_integrity() const { scheduler_.check_integrity(); }

 private:
  bool schedule_step(double now, proto::StepInput& step);
  bool is_idle() const;  // no rank has a step
  void finish_if_ended(const SequenceGroup& scheduled, const proto::SequenceGroupOutput& group,
                       int i);

  SchedulerConfig config_;
  int vocab_size_;
  ProfileGroup* profile_;  // null: none is wanted
  Scheduler scheduler_;
  std::unique_ptr<SequenceGroup> alone_;  // starts when no step is in flight
  uint64_t steps_completed_ = 0;
  double encoder_seconds_ = 0;
  std::vector<double> stage_seconds_;  // by stage; without stages empty
  double pipeline_seconds_ = 0;
  TokenHistogram step_tokens_;
  double waiting_since_ = 0;
};

}  // namespace tandem
