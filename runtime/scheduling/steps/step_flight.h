// The way of a step from its draft to its answers: groups advance when it takes off, as if it had
// been computed, and what was sampled becomes known when it lands.
#pragma once

#include <cstdint>
#include <type_traits>
#include <vector>

#include "runtime/scheduling/blocks/block_manager.h"
#include "runtime/scheduling/drafts/speculator.h"
#include "runtime/scheduling/group_ends.h"
#include "runtime/scheduling/group_queues.h"
#include "runtime/scheduling/scheduler_config.h"
#include "runtime/scheduling/steps/beam_search_driver.h"
#include "runtime/scheduling/steps/step_answers.h"
#include "runtime/scheduling/steps/step_draft.h"
#include "runtime/scheduling/steps/steps_in_flight.h"

namespace tandem {

class StepFlight {
 public:
  // All of them must outlive it.
  StepFlight(const SchedulerConfig& config, GroupQueues& queues, BlockManager& blocks,
             BeamSearchDriver& beams, Speculator& speculator, GroupEnds& ends)
      : config_(config),
        queues_(queues),
        blocks_(blocks),
        beams_(beams),
        speculator_(speculator),
        ends_(ends),
        answers_(queues) {}

  // The draft is in flight from here on. Returns the step's number.
  uint64_t take_off(StepDraft& draft);
  // The answers to a step: SampledTokens, or a proto::StepOutput. Throws std::runtime_error, and
  // changes nothing, if it is another step's turn, or as StepAnswers::read().
  template <class Answers>
  void land(uint64_t number, const Answers& answers) {
    StepInFlight& step = steps_.oldest(number);
    answers_.read(step, answers);
    if constexpr (std::is_same_v<Answers, proto::StepOutput>) speculator_.measure(step, answers);
    complete(step);
  }

  const StepsInFlight& steps() const { return steps_; }

 private:
  void put_in_flight(StepDraft::Group& group, StepInFlight& step);
  void complete(StepInFlight& step);
  void take_answer(const SequenceInFlight& scheduled, const StepAnswers::Answer& answer);
  void cache_blocks(const SequenceGroup& group, const Sequence& seq, int from);

  const SchedulerConfig& config_;
  GroupQueues& queues_;
  BlockManager& blocks_;
  BeamSearchDriver& beams_;
  Speculator& speculator_;
  GroupEnds& ends_;
  StepAnswers answers_;
  StepsInFlight steps_;
};

}  // namespace tandem
