// What a request without generated tokens is made of.
#pragma once

#include <cstdint>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// The weights of the decoder's cross-attention.
inline bool aligns(const proto::Pooling& pooling) {
  return pooling.kind() == proto::Pooling::ALIGNMENT;
}
// These, or the model's head on the decoder's hidden states; otherwise those of the encoder, and no
// decoder runs.
inline bool reads_decoder(const proto::Pooling& pooling) {
  return pooling.kind() == proto::Pooling::LABELS || pooling.kind() == proto::Pooling::SPANS ||
         aligns(pooling);
}
inline bool pools_encoder(const proto::SamplingParams& params) {
  return params.has_pooling() && !reads_decoder(params.pooling());
}
inline bool aligns(const proto::SamplingParams& params) {
  return params.has_pooling() && aligns(params.pooling());
}
inline bool runs_head(const proto::SamplingParams& params) {
  return params.has_pooling() && reads_decoder(params.pooling()) && !aligns(params);
}
// Each decoder token has numbers of its own, so that none may come from a cache.
inline bool wants_all_rows(const proto::SamplingParams& params) {
  return params.has_pooling() &&
         (params.pooling().kind() == proto::Pooling::SPANS || aligns(params));
}
// With wants_all_rows(): the numbers of a token, and the first token that has some.
inline int64_t numbers_of_row(const proto::Pooling& pooling) {
  constexpr int64_t kOfSpan = 2;  // the logits of its start and its end
  const proto::Alignment& alignment = pooling.alignment();
  return aligns(pooling) ? int64_t{alignment.heads_size()} * alignment.positions() : kOfSpan;
}
inline int32_t first_row(const proto::Pooling& pooling) {
  return aligns(pooling) ? pooling.alignment().first_token() : 0;
}

}  // namespace tandem
