// Beams in the scheduler: the chunks and blocks of a round, and the step from one round to the
// next.
//
// A round: every running beam computes its last token. Workers answer with candidates. With the
// last answer, the search decides which beam continues which, and with which token. Tokens and
// block tables follow at once; workers are told with the next step. Where workers search as well
// (BeamState::ahead), rounds are launched before their answers arrive. An answer then resolves one
// pending token of each beam, and full blocks change tables. The contract:
// docs/design/scheduling.md §2.
#pragma once

#include <vector>

#include "runtime/scheduling/blocks/block_manager.h"
#include "runtime/scheduling/steps/planned_step.h"
#include "runtime/scheduling/steps/steps_in_flight.h"

namespace tandem {

class BeamSearchDriver {
 public:
  // `blocks` must outlive it.
  explicit BeamSearchDriver(BlockManager& blocks) : blocks_(blocks) {}

  // `chunks`: of the beams that can compute their last token. Fills in the blocks that they need;
  // none is left if all must run together and cannot.
  std::vector<SequenceChunk> choose(const SequenceGroup& group,
                                    std::vector<SequenceChunk> chunks) const;
  // The scheduled step computes the beam's last token. In the first round only the first beam runs:
  // it computes the forks' prompt as well.
  static void launch(SequenceGroup& group, Sequence& seq);

  // What the answers to a round that was launched ahead lead to.
  struct AheadRound {
    QueuedGroup* queued;
    BeamSearch::Round round;
  };
  // Nothing has changed yet. Throws std::runtime_error if a worker went on otherwise.
  static std::vector<AheadRound> choose_rounds(const StepInFlight& step,
                                               const StepAnswers& answers);
  // True if the search has ended: its result is there, and the group is to be finished.
  bool finish_round(const AheadRound& round);

  // Candidates of a beam whose rounds are behind their answers.
  static void collect(const SequenceInFlight& scheduled, const proto::BeamCandidates& candidates);
  // The next round, if all its candidates have come. True as above.
  bool advance(SequenceGroup& group);

  // Results of the searches that have ended since the last call.
  std::vector<proto::BeamResult> take_results();

  // Search, sequences and tables of the group agree.
  void check_integrity(const SequenceGroup& group) const;

 private:
  BlockManager& blocks_;
  std::vector<proto::BeamResult> results_;
};

}  // namespace tandem
