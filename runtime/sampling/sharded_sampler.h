// Sampling where every rank holds the logits of its part of the vocabulary.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/context.h"
#include "parallel/communicators/communicator.h"
#include "runtime/sampling/sampler.h"

namespace tandem {

// One token for each row, the same on all ranks: the token that sample() (sampler.h) chooses from
// the whole row. Log-probabilities agree to rounding. Only rows that need it travel, to one rank; a
// greedy row without processors costs a few bytes per rank. The caller sets seq_id. Only rank 0's
// result has lists of log-probabilities and candidates of beams. `shard`: [rows, this rank's ids],
// contiguous.
std::vector<proto::SequenceOutput> sample_sharded(Context& ctx, Communicator& comm,
                                                  std::span<const SamplerSequence> rows,
                                                  const Tensor& shard, int64_t vocabulary);

}  // namespace tandem
