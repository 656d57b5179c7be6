// Continuous batching: which sequences run in the next step, and where their keys and values go.
// A step is planned, gets drafts, becomes a message and is in flight (schedule()) until its answers
// are there (complete_step()). Synchronous; one thread. The contract, with its reasons:
// docs/design/scheduling.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/scheduling/blocks/block_manager.h"
#include "runtime/scheduling/group_queues.h"
#include "runtime/scheduling/scheduler_config.h"
#include "runtime/scheduling/sequence.h"
#include "runtime/scheduling/steps/beam_search_driver.h"
#include "runtime/scheduling/steps/encoder_steps.h"
#include "runtime/scheduling/steps/planned_step.h"
#include "runtime/scheduling/steps/speculator.h"
#include "runtime/scheduling/steps/step_message_writer.h"
#include "runtime/scheduling/steps/step_planner.h"
#include "runtime/scheduling/steps/steps_in_flight.h"

namespace tandem {

class Scheduler {
 public:
  // Owns nothing of the caller's. config: counts > 0, num_host_blocks >= 0.
  explicit Scheduler(const SchedulerConfig& config);
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Throws as tandem::check_admissible() (admissibility.h).
  void check_admissible(const SequenceGroup& group) const;
  // Throws as check_admissible(), and if the request id is taken.
  void add_seq_group(std::unique_ptr<SequenceGroup> group);
  // In any state, with steps in flight too. Frees all it holds, self and cross,
  // and drops the group; false if there is no such request.
  bool abort_seq_group(const std::string& request_id);

  // The next step. It has no groups and deltas if nothing can run, or if everything waits for the
  // results of steps in flight. A step without work is not in flight, and has no number. Fewer than
  // most_in_flight() steps may be in flight. now: seconds, of any clock.
  proto::StepInput schedule(double now);
  // The same, into an empty message (which may lie in an arena).
  void schedule(double now, proto::StepInput& message);
  // The oldest step in flight was computed: its sampled tokens become known. The answer for a beam
  // is its candidates. A search that ends with them finishes its group, and so does a pooled
  // vector. Throws std::runtime_error, and changes nothing, if it is another step's turn, or as
  // StepAnswers::read().
  void complete_step(const proto::StepOutput& output);
  // Encoders on ranks of their own (encoder_steps.h): the next step for one of them, to be asked
  // for behind schedule(), and the answer to one. Throws as EncoderSteps::complete().
  std::optional<int> schedule_encoders(double now, proto::StepInput& message) {
    return encoders_.next(now, queues_, message);
  }
  void complete_encoders(int rank, const proto::StepOutput& output, double now);
  const EncoderSteps& encoder_steps() const { return encoders_; }
  // Results of the searches that have ended since the last call.
  std::vector<proto::BeamResult> take_beam_results() { return beams_.take_results(); }
  // Marks a sequence as finished, frees its blocks and drops its pending tokens; no-op if it is
  // unknown or finished. A beam group ends with any of its sequences.
  void finish_sequence(const std::string& request_id, int64_t seq_id, SequenceStatus status);
  // Removes groups whose sequences have all finished, and frees their cross-attention blocks.
  void free_finished_seq_groups();

  // Waiting, running or swapped groups (not those finished and not yet freed).
  bool has_unfinished() const;
  // The same, or something is to be taken from an encoder's rank.
  bool has_work() const { return has_unfinished() || encoders_.has_ready(); }
  int num_waiting() const { return queues_.num_waiting(); }
  int num_running() const { return static_cast<int>(queues_.running().size()); }
  int num_swapped() const { return queues_.num_swapped(); }
  int num_preemptions() const { return planner_.num_preemptions(); }  // so far
  // Groups preempted since the last call, in order; one may be there several times.
  std::vector<proto::RequestPreempted> take_preempted() { return planner_.take_preempted(); }
  // Numbers, times and requests of the steps in flight.
  const StepsInFlight& steps_in_flight() const { return steps_; }
  SequenceGroup* find(const std::string& request_id);
  const BlockManager& block_manager() const { return blocks_; }
  const SpeculationStats& speculation_stats() const { return speculator_.stats(); }

  // Queues and statuses agree, every running sequence has a table that covers it, blocks add up,
  // every pending token has one step in flight that samples it. Not within schedule().
  void check_integrity() const;

 private:
  // Beam searches whose time (max_time) is over end with their next round.
  void end_searches(double now);
  // The planned step is in flight: groups advance as if it had been computed. Returns its number.
  uint64_t launch();
  void launch(PlannedStep::Group& scheduled, StepInFlight& step);
  void take_answers(StepInFlight& step);
  void take_answer(const SequenceInFlight& scheduled, const StepAnswers::Answer& answer);
  void cache_blocks(const SequenceGroup& group, const Sequence& seq, int from);
  // The ends of sequences and groups. Their blocks are freed; workers are told with the next step.
  // finish() takes an unfinished sequence, frees its self blocks and drops its pending tokens. The
  // last sequence finishes the group, which keeps its cross blocks.
  void finish(QueuedGroup& queued, Sequence& seq, SequenceStatus status);
  void finish_search(QueuedGroup& queued);
  // Frees all that the group holds, and forgets it, in whatever queue it is.
  void drop(QueuedGroup& queued);
  void check_group(const QueuedGroup& queued) const;

  SchedulerConfig config_;
  BlockManager blocks_;
  GroupQueues queues_;
  BeamSearchDriver beams_;
  EncoderSteps encoders_;
  StepPlanner planner_;
  Speculator speculator_;
  StepMessageWriter writer_;
  PlannedStep planned_;  // empty but in schedule()
  StepsInFlight steps_;
  StepAnswers answers_;  // of the step that is being completed
};

}  // namespace tandem
