// Tokens that the last stage has chosen and the others do not know yet (unheard_tokens.h). Like a
// device's, they stand as ids below 0 in the table until they are known.
#include "runtime/execution/ranks/unheard_tokens.h"

#include <algorithm>
#include <span>

#include "base/check.h"
#include "runtime/sampling/beam_search.h"

namespace tandem {

bool UnheardTokens::is_told(const SampleRow& row) { return !uses_beams(row.group->params); }

void UnheardTokens::expect(const std::vector<const SampleRow*>& rows) {
  std::vector<Row> step;
  for (const SampleRow* row : rows) {
    if (!is_told(*row)) continue;
    // The table's own, which the batch only reads.
    auto& group = const_cast<WorkerGroup&>(*row->group);
    step.push_back({table_.append_pending(group, row->seq().seq_id, kNone), most_of(*row)});
  }
  if (!step.empty()) steps_.push_back(std::move(step));
}

void UnheardTokens::hear_for(const proto::StepInput& step) {
  while (steps_.size() > Pipeline::kMostUnheard) hear_oldest();
  for (const proto::SequenceGroupDelta& delta : step.deltas()) {
    while (table_.has_unknown_tokens(delta.request_id())) {
      TANDEM_CHECK(!steps_.empty(), "a token that no step chooses");
      hear_oldest();
    }
  }
}

void UnheardTokens::hear_oldest() {
  const std::vector<Row>& rows = steps_.front();
  size_t count = 0;
  for (const Row& row : rows) count += row.most;
  std::vector<int32_t> tokens(count);
  pipeline_.hear(tokens);
  auto at = tokens.begin();
  for (const auto& [pending, most] : rows) {
    const auto end = at + static_cast<std::ptrdiff_t>(most);
    table_.know(pending, std::span(at, std::find(at, end, kNone)));
    at = end;
  }
  steps_.pop_front();
}

void UnheardTokens::check_integrity() const {
  TANDEM_CHECK_LE(steps_.size(), size_t{Pipeline::kMostUnheard} + 1);
  for (const std::vector<Row>& rows : steps_) {
    TANDEM_CHECK(!rows.empty());
    for (const Row& row : rows) TANDEM_CHECK_GE(row.most, size_t{1});
  }
}

}  // namespace tandem
