// Which kernels multiply a weight, by bytes and operations (docs/gpu/quantization.md). Host only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/core/quantization.h"
#include "kernels/core/types.h"

namespace tandem::cuda {

enum class WeightPath : uint8_t {
  kRows,        // weight_rows.cu: the weight once for a few rows, no tensor cores
  kTiles,       // weight_tiles.cu: quantised weights on tensor cores
  kProduct,     // a 16-bit or f32 weight as it is, by cuBLASLt or tiles of ours; a quantised one is
                // written out in the activations' type before
  kFp8Product,  // cuBLASLt's product of e4m3, both sides
};

struct WeightShape {
  int64_t rows, n, k;  // of the input, output features, input features
  DType type;          // of the activations
  Quantization quantization;
  bool aligned;    // rows of x begin at multiples of 16 bytes
  int capability;  // 10 * major + minor
  // The bits of a row must not depend on the number of rows (DeviceBackend::be_batch_invariant).
  bool batch_invariant = false;
};

// Of one launch of weight_rows.cu's widest kernel.
constexpr int kMostRowsAtOnce = 8;

// Up to this many rows, reading the weight bounds the kernel of rows. Half a byte takes as many
// operations as two bytes.
constexpr int64_t most_rows(Quantization q) {
  return q == Quantization::kNone ? kMostRowsAtOnce : 4;
}
// Without tensor cores the weight is read once for each 8 rows. Writing it out costs 5 times the
// bytes of reading int8 once.
constexpr int64_t kMostRowsWithoutTiles = 24;
// Above, the faster product pays for writing the weight out.
constexpr int64_t kMostTileRows = 256;

constexpr bool multiplies_fp8(const WeightShape& s) {
  return s.quantization == Quantization::kFp8Inputs && s.capability >= 89 &&
         s.type != DType::kF32 && s.n % 16 == 0 && s.k % 16 == 0 && s.k > 0;
}

constexpr bool tiles_possible(const WeightShape& s) {
  return s.quantization != Quantization::kNone && s.capability >= 80 && s.type != DType::kF32 &&
         s.aligned && s.k % 8 == 0;
}

// Rounding the input to e4m3 does not depend on the number of rows. (The library's algorithms do:
// where rows must not depend on others, inputs of fp8 weights are not rounded.)
constexpr WeightPath weight_path(const WeightShape& s) {
  if (s.batch_invariant && s.quantization != Quantization::kNone)
    return tiles_possible(s) ? WeightPath::kTiles : WeightPath::kRows;
  if (s.batch_invariant) return WeightPath::kProduct;
  if (multiplies_fp8(s)) return WeightPath::kFp8Product;
  if (s.rows <= most_rows(s.quantization)) return WeightPath::kRows;
  if (s.quantization == Quantization::kNone) return WeightPath::kProduct;
  if (tiles_possible(s)) return s.rows <= kMostTileRows ? WeightPath::kTiles : WeightPath::kProduct;
  return s.rows <= kMostRowsWithoutTiles ? WeightPath::kRows : WeightPath::kProduct;
}

// weight_tiles.cu: a block has 64 features and a part of the steps along k. Neither the parts nor a
// row's sums depend on the other rows.
constexpr int kTileFeatures = 64;
constexpr int kTileStepBytes = 64;  // of each feature

constexpr int64_t tile_steps(int64_t pitch) { return pitch / kTileStepBytes; }

// As many parts as give each multiprocessor of a large GPU a block, with at least 4 steps.
constexpr int tile_parts(int64_t n, int64_t pitch) {
  const int64_t tiles = (n + kTileFeatures - 1) / kTileFeatures, steps = tile_steps(pitch);
  return static_cast<int>(
      std::max<int64_t>(1, std::min({(128 + tiles - 1) / tiles, steps / 4, int64_t{8}})));
}

// The tokens of a block: the fewest of 16, 32 and 64 that hold all, or 64.
constexpr int tile_tokens(int64_t rows) { return rows <= 16 ? 16 : rows <= 32 ? 32 : 64; }

}  // namespace tandem::cuda
