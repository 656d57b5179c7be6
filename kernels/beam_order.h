// How a round of beam search ranks what beams may go on with; once for the host's search
// (runtime/sampling/beam_search.h) and for the ops.
#pragma once

#include <cstdint>

#include "kernels/order_key.h"

namespace tandem {

// HuggingFace's "not possible": float32 swallows what is added to it, and ties follow from that.
constexpr float kImpossibleScore = -1e9f;

struct BeamContinuation {
  float score;  // of the whole sequence
  int32_t beam;
  float own;  // of the token alone
  int32_t token;
};

// The better score first; of equals the lower beam, then what the beam itself prefers (at -1e9 sums
// are equal whose terms are not), then the lower token.
inline bool goes_before(const BeamContinuation& a, const BeamContinuation& b) {
  const int32_t x = order_key(a.score), y = order_key(b.score);
  if (x != y) return x > y;
  if (a.beam != b.beam) return a.beam < b.beam;
  const int32_t own_x = order_key(a.own), own_y = order_key(b.own);
  return own_x != own_y ? own_x > own_y : a.token < b.token;
}

}  // namespace tandem
