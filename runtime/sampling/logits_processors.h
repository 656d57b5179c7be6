// HuggingFace's logits processors and warpers: same order, same arithmetic (float32 where it uses
// it).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/row_draw.h"
#include "kernels/sampling_ops.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

class TokenConstraint;  // text/grammar/token_constraint.h

// What the processors see of one sequence.
struct SamplerSequence {
  const proto::SamplingParams* params = nullptr;
  std::span<const int32_t> encoder_ids;
  std::span<const int32_t> prompt_ids;  // decoder prompt
  std::span<const int32_t> output_ids;  // generated so far
  uint32_t seq_index = 0;               // index within the group, mixed into the seed
  // Of params->constraint(). Null where it could not be made: then nothing may follow.
  const TokenConstraint* constraint = nullptr;
};

// Whether process_logits() would change anything for the sequence's next token.
bool needs_processing(const SamplerSequence& seq);
// Whether they look at more than single entries: then the host has to see the row.
bool changes_whole_rows(const proto::SamplingParams& params);
// Whether what processors do depends on which tokens were generated, rather than on how many, and
// only the host can look at those.
bool reads_tokens(const proto::SamplingParams& params);
// The same where a device can look at them by itself: no_repeat_ngram_size, the penalties of
// repetition, presence and frequency.
bool reads_history(const proto::SamplingParams& params);
// Logits processors in HuggingFace's order, in place; masked entries become -inf.
void process_logits(const SamplerSequence& seq, std::span<float> logits);
// The same as a list of what happens to single entries, in the order of their ids; of one entry in
// the order of the processors. Nothing if a processor changes whole rows.
struct LogitEdits {
  struct Edit {
    int32_t id;
    ops::LogitEdit edit;
    float value;
  };
  std::vector<Edit> list;  // two of them if there is a history: its edits_before, and the others
  bool masked = false;     // before the list every entry is -inf
  // A bit for each token of the vocabulary, in words of 32: behind all that, the others are -inf.
  // Empty: none is.
  std::vector<uint32_t> allowed;
  // Of the sequence, but for its place: what is not in the list because it reads tokens.
  ops::RowHistory history;
  bool penalises() const {
    return history.repetition != 1.0f || history.presence != 0 || history.frequency != 0;
  }
  // Where the id's first edit is; list.size(): there is none.
  size_t find(int32_t id) const;
};
// `history_apart`: what reads_history() speaks of is in the history, not in the list.
std::optional<LogitEdits> logit_edits(const SamplerSequence& seq, int64_t vocabulary,
                                      bool history_apart = false);
// Temperature, top-h, top-k, top-p, min-p, typical, epsilon and eta cutoffs over processed logits,
// in HuggingFace's order; in place.
void warp_logits(const proto::SamplingParams& params, std::span<float> logits);

// The same, as the list of what is left, by id. Nothing if no filter is on or the row has no
// distribution (NaN, +inf, all masked); `logits` are scaled by the temperature in any case.
std::optional<Candidates> warp_candidates(const proto::SamplingParams& params,
                                          std::span<float> logits);

}  // namespace tandem
