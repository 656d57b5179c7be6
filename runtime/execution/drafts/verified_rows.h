// The rows of a step whose next token is wanted: of each sequence the one of its last token, and
// behind it those of its drafts. Every row is chosen for as if the drafts before it had been
// chosen; what is behind the first draft that was wrong does not count. So tokens are those of one
// row a step, by the same logits, processors and random numbers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/model.h"
#include "parallel/communicators/communicator.h"
#include "runtime/execution/batch_builder.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/sampling/logits_processors.h"

namespace tandem {

class VerifiedRows {
 public:
  // Rows that are sampled. Their groups must stay as they are.
  explicit VerifiedRows(std::vector<const SampleRow*> rows);

  // By verified row: what the sampler sees, and the row of the step.
  const std::vector<SamplerSequence>& views() const { return views_; }
  const std::vector<int32_t>& indices() const { return indices_; }

  // What was chosen for a sequence: of which of the constructor's rows.
  struct Chosen {
    size_t row;
    proto::SequenceOutput output;
  };
  // Chooses a token for each verified row from the step's hidden states [tokens, d_model]; then
  // take(). On the CPU.
  std::vector<Chosen> choose(Context& ctx, Communicator& comm, Model& model,
                             const Tensor& hidden) const;
  // chosen: for each verified row. Returns those that count, in order; with the first one of a
  // sequence what the draft model said, if it was asked.
  std::vector<Chosen> take(std::vector<proto::SequenceOutput> chosen) const;

 private:
  std::vector<const SampleRow*> rows_;
  std::vector<std::vector<int32_t>> outputs_;  // of sequences with drafts, with them
  std::vector<SamplerSequence> views_;
  std::vector<int32_t> indices_;
};

}  // namespace tandem
