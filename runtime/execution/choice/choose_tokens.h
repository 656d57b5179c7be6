// From a decoder's hidden states to tokens, on one rank or on many.
#pragma once

#include <cstdint>
#include <vector>

#include "models/model.h"
#include "parallel/communicators/communicator.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/sampling/logits_processors.h"

namespace tandem {

// Those rows of [T, d]: [rows, d].
Tensor rows_of(Context& ctx, const Tensor& hidden, const std::vector<int32_t>& rows);

// A token for each row of `hidden` [rows.size(), d], by its sampler's view: the same on all ranks
// (sharded_sampler.h). On the CPU.
std::vector<proto::SequenceOutput> choose_tokens(Context& ctx, Communicator& comm, Model& model,
                                                 const std::vector<SamplerSequence>& rows,
                                                 const Tensor& hidden);

}  // namespace tandem
