// Encoders on ranks of their own (docs/parallel.md): the groups that wait for their encoder, the
// encoders' steps under way, and the results that are ready to be taken.
//
//   add() ──► waits ── next() ──► under way ── complete() ──► ready ── take() ──► runs as any other
//
// An encoder's rank sends what it has computed, in the order in which it was asked. So nothing can
// be called back: what nobody wants any more is taken and dropped. Synchronous; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "runtime/scheduling/blocks/block_manager.h"
#include "runtime/scheduling/group_queues.h"
#include "runtime/scheduling/scheduler_config.h"
#include "runtime/scheduling/steps/planned_step.h"

namespace tandem {

class EncoderSteps {
 public:
  // A rank is sent a step while it computes another.
  static constexpr size_t kStepsOfRank = 2;
  // Tokens of a step, unless one input alone has more. Products are not faster with more rows, and
  // the first input of a step waits for the last.
  static constexpr int kTokensOfStep = 512;

  // Both outlive it.
  EncoderSteps(const SchedulerConfig& config, BlockManager& blocks);

  bool enabled() const { return !ranks_.empty(); }
  // The group runs, and its encoder's result is not there: it waits
  // (SequenceGroup::encoder_place()).
  static void add(SequenceGroup& group);
  // The group does not wait any more: it ends, or will be computed anew. No-op if it does not wait.
  void forget(const QueuedGroup& queued);

  // The next step for an encoder's rank, into an empty message: groups that wait, in the order of
  // `queues`. Returns the rank, in the group of all ranks; nothing if there is no work, or if every
  // rank has enough. now: seconds.
  std::optional<int> next(double now, const GroupQueues& queues, proto::StepInput& message);
  // That rank has computed the oldest step that it was sent. Returns the groups that end with it:
  // those whose vector is pooled from the encoder's output. Throws std::runtime_error, and changes
  // nothing, if it is not an answer to that step.
  std::vector<QueuedGroup*> complete(int rank, const proto::StepOutput& output, double now);
  // Before a step is planned: what is ready is taken in it. These groups run from now on.
  void take(PlannedStep& step);

  // Whether a group waits for an encoder's result that this one could have, too.
  bool awaits_equal(const SequenceGroup& group, const GroupQueues& queues) const;
  bool has_ready() const { return !ready_.empty(); }
  int steps_in_flight() const;
  // Since when the rank that has waited longest computes its oldest step; nothing: none computes.
  std::optional<double> waiting_since() const;
  // Of the oldest step of a rank; 0: it has none.
  uint64_t oldest_number(int rank) const;
  bool is_encoder_rank(int rank) const;
  // Of all steps in flight: also of inputs that nobody wants any more, since they are computed.
  std::vector<std::string> request_ids() const;
  // That each rank has computed.
  const std::vector<double>& seconds() const { return seconds_; }

  // Every group that waits is in a queue, or in one step; nothing else is.
  void check_integrity(const GroupQueues& queues) const;

 private:
  struct Input {
    const QueuedGroup* queued;  // null: nobody wants it any more
    std::string request_id;
    int64_t seq_id;     // the encoder's
    int64_t answer_id;  // of the sequence that answers name
    bool pooled;
  };
  struct Step {
    uint64_t number;
    int tokens = 0;
    std::vector<Input> inputs = {};
  };
  struct Rank {
    uint64_t next_number = 1;
    double waiting_since = 0;  // for the oldest of `steps`
    std::deque<Step> steps = {};
    std::vector<std::string> known = {};  // requests of the last step, which the next one forgets
  };
  struct Ready {
    int rank;
    Input input;
  };

  Rank* idlest();
  void write(const SequenceGroup& group, int& next_block, proto::SequenceGroupMetadata& out) const;
  static void check(const Step& step, const proto::StepOutput& output);

  const SchedulerConfig& config_;
  BlockManager& blocks_;
  std::vector<Rank> ranks_;
  std::vector<double> seconds_;
  std::deque<Ready> ready_;  // of each rank in its order
};

}  // namespace tandem
