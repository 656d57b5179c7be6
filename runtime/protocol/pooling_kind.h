// Which hidden states a request without generated tokens is made of.
#pragma once

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// The model's head on the decoder's; otherwise they are the encoder's, and no decoder runs.
inline bool reads_decoder(const proto::Pooling& pooling) {
  return pooling.kind() == proto::Pooling::LABELS || pooling.kind() == proto::Pooling::SPANS;
}
inline bool pools_encoder(const proto::SamplingParams& params) {
  return params.has_pooling() && !reads_decoder(params.pooling());
}
inline bool runs_head(const proto::SamplingParams& params) {
  return params.has_pooling() && reads_decoder(params.pooling());
}
// All decoder tokens count, so that none may come from a cache.
inline bool wants_all_rows(const proto::SamplingParams& params) {
  return params.has_pooling() && params.pooling().kind() == proto::Pooling::SPANS;
}

}  // namespace tandem
