// The rows of a step whose next token is wanted: of each sequence the one of its last token, and
// behind it those of its drafts. Every row is chosen for as if the drafts before it had been
// chosen; what is behind the first draft that was wrong does not count. So tokens are those of one
// row a step, by the same logits, processors and random numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "models/model.h"
#include "parallel/communicators/communicator.h"
#include "runtime/execution/batch_builder.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/sampling/logits_processors.h"

namespace tandem {

class VerifiedRows {
 public:
  // Rows that are sampled.
  explicit VerifiedRows(const std::vector<const SampleRow*>& rows);
  VerifiedRows(VerifiedRows&&) = default;

  // By verified row: what the sampler sees, and the row of the step. A view refers to its group. A
  // sequence with drafts may go on meanwhile; others must stay as they are.
  const std::vector<SamplerSequence>& views() const { return views_; }
  const std::vector<int32_t>& indices() const { return indices_; }
  // The verified row that is the first one of the constructor's i-th row.
  size_t first_of(size_t i) const { return rows_[i].first; }
  // Whether the draft model was asked for some of them, and could.
  bool was_drafted() const {
    return std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.drafted; });
  }

  // What was chosen for a sequence: of which of the constructor's rows.
  struct Chosen {
    size_t row;
    proto::SequenceOutput output;
  };
  // Chooses a token for each verified row from the step's hidden states [tokens, d_model]; then
  // take(). By the host.
  std::vector<Chosen> choose(Context& ctx, Communicator& comm, Model& model,
                             const Tensor& hidden) const;
  // chosen: for each verified row. Returns those that count, in order; with the first one of a
  // sequence what the draft model said, if it was asked. Reads no group.
  std::vector<Chosen> take(std::vector<proto::SequenceOutput> chosen) const;

 private:
  struct Row {
    size_t first;
    std::vector<int32_t> drafts;
    bool drafted;                 // the draft model was asked
    std::vector<int32_t> output;  // with the drafts; without drafts nothing
  };
  std::vector<Row> rows_;
  std::vector<SamplerSequence> views_;
  std::vector<int32_t> indices_;
};

}  // namespace tandem
