// On a stage before the last one: the tokens of steps that it has run and not heard of yet. A step
// waits for those that it computes, and for no others, so stages are in different steps at a time
// (docs/parallel.md). Synchronous; one thread.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "runtime/execution/batch_builder.h"
#include "runtime/execution/groups/sequence_table.h"
#include "runtime/execution/ranks/pipeline.h"

namespace tandem {

class UnheardTokens {
 public:
  // Both must outlive it.
  UnheardTokens(Pipeline& pipeline, SequenceTable& table) : pipeline_(pipeline), table_(table) {}

  // Of a sampled row the last stage tells most_of() ids, kNone behind the last token; nothing of
  // beams, whose tokens come with the scheduler's messages.
  static constexpr int32_t kNone = -1;
  static bool is_told(const SampleRow& row);
  static size_t most_of(const SampleRow& row) { return static_cast<size_t>(1 + row.num_drafts); }

  // A step was run: the sequences of its sampled rows go on with a token that is not known.
  void expect(const std::vector<const SampleRow*>& rows);
  // Before a step: waits until all tokens of the groups that it has as deltas are known, and until
  // no more steps are unheard than may be (Pipeline::kMostUnheard).
  void hear_for(const proto::StepInput& step);

  size_t num_steps() const { return steps_.size(); }
  void check_integrity() const;

 private:
  struct Row {
    SequenceTable::PendingToken token;
    size_t most;
  };
  void hear_oldest();

  Pipeline& pipeline_;
  SequenceTable& table_;
  std::deque<std::vector<Row>> steps_;  // oldest first; none is empty
};

}  // namespace tandem
