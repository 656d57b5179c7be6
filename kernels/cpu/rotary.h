// How the CPU rotates a head's pairs by their positions, for `rotary` and `write_kv`.
#pragma once

#include <cstdint>

#include "kernels/core/types.h"
#include "kernels/ops.h"

namespace tandem::cpu {

inline void store_value(float x, float* to) { *to = x; }
inline void store_value(float x, uint16_t* to) { *to = float_to_bf16(x); }

// The angles of a token; turned == 0: none.
struct TokenAngles {
  const float* cosines;  // [turned / 2], then as many sines
  int64_t turned;
  bool interleaved;
};

inline TokenAngles angles_of(const ops::Rotary& rotary, int64_t token) {
  if (rotary.angles.empty()) return {nullptr, 0, false};
  return {rotary.angles.row<float>(token), rotary.angles.dim(1), rotary.interleaved};
}

// Writes the rotated values of a head; the others are not touched. `to` may be `from`.
template <class T>
void turn_head(const float* from, const TokenAngles& angles, T* to) {
  const int64_t half = angles.turned / 2, step = angles.interleaved ? 2 : 1;
  const int64_t apart = angles.interleaved ? 1 : half;
  const float *cosines = angles.cosines, *sines = cosines + half;
  for (int64_t i = 0; i < half; ++i) {
    const float a = from[i * step], b = from[i * step + apart];
    store_value(a * cosines[i] - b * sines[i], to + i * step);
    store_value(b * cosines[i] + a * sines[i], to + i * step + apart);
  }
}

}  // namespace tandem::cpu
