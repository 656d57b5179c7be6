// What the kernel of a decoder's step is given (decoder_step.cu makes it).
#pragma once

#include <cstdint>

#include "kernels/attention_plan.h"
#include "kernels/core/activation.h"
#include "kernels/core/types.h"
#include "kernels/cuda/attention/attention_common.cuh"
#include "kernels/cuda/host/launch_stream.h"

namespace tandem::cuda::step {

constexpr int kMostRows = 8;
constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
// A stage of a warp's ring of weights: a part of a feature.
constexpr int kStageBytes = 2048;

// The products of a layer, in the order in which they run.
enum Product : int { kQkv, kSelfOut, kCrossQ, kCrossOut, kFirst, kSecond, kProducts };
enum Norm : int { kSelfNorm, kCrossNorm, kFinalNorm, kNorms };

// Where the parameters and pages of a layer lie. In device memory.
struct LayerPlaces {
  const void* weights[kProducts];
  const void* biases[kProducts];  // null: none
  const float* norm_weights[kNorms];
  const float* norm_biases[kNorms];  // null: RMS norms
  void* pages;
  const float* position_bias;  // of self-attention, or null
};

// A product's features in units, which warps share out: a feature, or of a gated layer two of them,
// `inner` apart.
struct ProductShape {
  int32_t units, k;
};

struct Keys {
  const AttentionWork* work;
  const int32_t* page_indices;
  int32_t works;              // with those that fill up
  int32_t most_queries;       // of a work
  int32_t partials, tickets;  // of works of several chunks
  float scale_log2;
};

// The blocks' barrier (grid_sync.cuh).
struct BarrierPlaces {
  uint32_t* words;    // on the device: the counter; what it was when the launch began; given up
  uint32_t* aborted;  // of the host: not 0, no block waits any more
  uint32_t* failed;   // of the host: set where a wait was given up
  uint64_t timeout;   // of a wait, ns
};

struct Params {
  const LayerPlaces* layers;
  int32_t num_layers, rows, d, inner, heads, head_dim;
  ProductShape products[kProducts];
  Activation activation;
  bool gated, norms_behind;
  float eps[kNorms];
  const void *x, *update;  // [rows, d]; update may be null
  int64_t x_stride, update_stride, out_stride;
  void* out;
  const float *last_weight, *last_bias;  // the norm behind everything
  float last_eps;
  // Between phases, rows adjacent: [rows, 3 width] or [rows, width], [rows, width], [rows, d],
  // [rows, inner] of the activations' type.
  void *queries, *attended, *sums, *hidden;
  const int32_t* slots;
  Keys self, cross;
  // Pages, in elements (kernels/kv_pages.h).
  int64_t page_stride, value_offset, head_stride, token_stride;
  int32_t block_size;
  Divider page;
  int32_t bias_columns, bias_zero;  // of self-attention's bias by distance
  // Attention's parts: [slots, heads, kWarps, head_dim + 2]; [works or more, heads], 0 between
  // uses.
  float* parts;
  int32_t* tickets;
  BarrierPlaces barrier;
  // Shared memory, bytes from its begin: the copies' barriers lie in front.
  int32_t state, area, ring;
  int32_t stages;        // of a warp
  int32_t staged_pages;  // room for page numbers of a warp
  bool bulk;             // of the emulator: weights come by bulk copies
};

// The largest head.
constexpr int kMostHead = 64;
// kRows of the kernel.
constexpr int kernel_rows(int rows) { return rows == 1 ? 1 : rows <= 4 ? 4 : kMostRows; }

// decoder_step_f32.cu, decoder_step_f16.cu, decoder_step_bf16.cu.
void launch_f32(const Params& p, int blocks, int shared, LaunchStream stream);
void launch_f16(const Params& p, int blocks, int shared, LaunchStream stream);
void launch_bf16(const Params& p, int blocks, int shared, LaunchStream stream);

}  // namespace tandem::cuda::step
