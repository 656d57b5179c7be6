// How a round of beam search ranks continuations, shared by the host's search
// (runtime/sampling/beam_search.h) and the ops.
#pragma once

#include <cstdint>

#include "kernels/order_key.h"

namespace tandem {

// HuggingFace's "not possible". Terms added to it vanish in float32, and ties follow from that.
constexpr float kImpossibleScore = -1e9f;

struct BeamContinuation {
  float score;  // of the whole sequence
  int32_t beam;
  float own;  // of the token alone
  int32_t token;
};

// Order: better score, lower beam, better score of the token alone, lower token. (At -1e9 sums are
// equal although their terms are not.)
inline bool goes_before(const BeamContinuation& a, const BeamContinuation& b) {
  const int32_t x = order_key(a.score), y = order_key(b.score);
  if (x != y) return x > y;
  if (a.beam != b.beam) return a.beam < b.beam;
  const int32_t own_x = order_key(a.own), own_y = order_key(b.own);
  return own_x != own_y ? own_x > own_y : a.token < b.token;
}

}  // namespace tandem
