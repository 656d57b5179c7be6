// The ops of the models. Those of attention: kernels/attention_ops.h, of sampling:
// kernels/sampling_ops.h. The list of all ops, on one page: kernels/op_list.h. An op checks its
// shapes once (kernels/check), then calls the device's implementation (kernels/cpu, kernels/cuda).
// Tests compare ops that sum with kernels/reference.h.
//
// Conventions:
// - Activations are matrices [tokens, features] of Context::activations() (float32 on the CPU),
//   without padding. Their rows may be strided (Tensor::columns).
// - Indices are int32.
// - `indptr` arrays start at 0 and have one element more than there are sequences. Sequence i owns
//   rows [indptr[i], indptr[i+1]).
// - The caller provides outputs. They may not alias inputs unless a comment allows it.
//
// Batch invariance: each output row depends only on its own sequence, bit for bit. Every sum has a
// fixed order. It does not depend on other rows, the number of threads, the page size, or the
// chunks of a prompt. (On CUDA `linear` is an exception: docs/gpu.md.)
#pragma once

#include <span>

#include "kernels/attention_ops.h"
#include "kernels/core/activation.h"
#include "kernels/core/context.h"
#include "kernels/core/quantization.h"
#include "kernels/core/tensor.h"

namespace tandem {

// --- Linear layers -------------------------------------------------------------------------------

// A weight as it lies in a file: [rows = output features, columns = input features], rows strided.
struct MatrixView {
  const void* data = nullptr;
  DType dtype = DType::kF32;  // f32, f16 or bf16; need not be aligned
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t row_stride = 0;  // elements
};

// The sum of this many int8 products, or 128 times the sum of this many weights, fits an int32.
constexpr int64_t kMaxI8Features = int64_t{1} << 17;

// A weight in the layout of the device's GEMM. Made at load, then read-only. On CUDA its type is
// that of the activations, quantised or not.
class PackedWeight {
 public:
  PackedWeight() = default;
  // Stacks the parts along the output features (Q, K and V become one weight). All parts have the
  // same number of columns. `dtype` is the compute type: f32, bf16, i8 or i4. Throws InputError for
  // i8 and i4 and more than kMaxI8Features columns.
  // `quantization` is of devices; on the CPU int8 and int4 are compute types.
  PackedWeight(Context& ctx, std::span<const MatrixView> parts, DType dtype,
               Quantization quantization = Quantization::kNone);

  int64_t out_features() const { return n_; }
  int64_t in_features() const { return k_; }
  DType dtype() const { return dtype_; }
  Quantization quantization() const { return quantization_; }
  size_t bytes() const {
    return (data_.empty() ? 0 : data_.bytes()) + (scales_.empty() ? 0 : scales_.bytes());
  }
  const Tensor& data() const { return data_; }      // device-specific
  const Tensor& scales() const { return scales_; }  // of quantised data

 private:
  Tensor data_, scales_;
  int64_t n_ = 0, k_ = 0;
  DType dtype_ = DType::kF32;
  Quantization quantization_ = Quantization::kNone;
};

namespace ops {

struct LayerNormArgs;

// out[t] = activation(W x[t] + bias), bias optional (empty).
// - Weights in bf16: x is rounded to bf16, products are summed in f32.
// - Weights in i8: output feature n has the scale s_n = max_k |W_nk| / 127, row t of x the scale
//   s_t = max_k |x_tk| / 127. Both are rounded to multiples of their scales, ties to even. The
//   product is s_n s_t times an exact integer sum, the same on all levels and ranges of rows. A row
//   or feature with a NaN or an infinity gives NaN; one with all elements below 1e-30 counts as 0.
// - Weights in i4: as i8, but s_n = max_k |W_nk| / 120, and W_nk is rounded to s_n f q. The factor
//   f, |f| <= 15, is common to 32 adjacent k; q is one of -8..7.
struct LinearArgs {
  const PackedWeight* weight;
  Tensor x;     // [T, in_features]
  Tensor bias;  // [out_features] f32 (on CUDA of the type of `out`), or empty
  Activation activation = Activation::kNone;
  Tensor out;  // [T, out_features], of the activations' type or f32
  // A layer_norm to run first, whose `out` is x. Null: x is computed already. A device may do both
  // at once, so there neither `out` nor `sum` may be an input of the norm.
  const LayerNormArgs* norm = nullptr;
};
void linear(Context& ctx, const LinearArgs& args);

// For the chosen rows, returns what select() would report without processors; logits are never
// stored. With a soft cap the logits are those after soft_cap(). On a device: at most
// DeviceBackend::most_best_rows rows, the weight not quantised, and above 8 rows the rows of x
// begin at multiples of 16 bytes.
struct LinearBestArgs {
  const PackedWeight* weight;
  Tensor x;               // [T, in_features]
  Tensor rows;            // [R] i32, into x
  Tensor bias;            // [out_features] f32, or empty
  Tensor log_sums;        // [R] f32
  Tensor ids;             // [R, 1] i32
  Tensor values;          // [R, 1] f32
  Tensor best = {};       // [at least R] i32, or empty: the ids once more
  float soft_cap = 0.0f;  // 0: none
  int32_t first_id = 0;   // the id of the first output feature
};
void linear_best(Context& ctx, const LinearBestArgs& args);

// Joins what linear_best() says of the parts of a vocabulary. Of each row: the largest value, of
// equals that of the lowest id, a NaN before all; and the log of the sum of exp(log_sum). The parts
// are added in order.
struct JoinBestArgs {
  Tensor part_ids;       // [P, R] i32, P > 0
  Tensor part_values;    // [P, R] f32
  Tensor part_log_sums;  // [P, R] f32
  Tensor log_sums;       // [R] f32
  Tensor ids;            // [R, 1] i32
  Tensor values;         // [R, 1] f32
  Tensor best = {};      // as in LinearBestArgs
};
void join_best(Context& ctx, const JoinBestArgs& args);

// --- Embeddings and norms ------------------------------------------------------------------------

// out[t] = scale * tokens[ids[t]] + positions[position_ids[t] + position_offset]; the position
// table may be empty. Tables are f32 or bf16. The token table may also have the activations' type,
// beside positions in f32. Ids outside [first_id, first_id + tokens.dim(0)) give zero: another rank
// holds that shard of the vocabulary.
struct EmbeddingArgs {
  Tensor ids;           // [T] i32; or [T, 1] f32: whole numbers
  Tensor position_ids;  // [T] i32
  Tensor tokens;        // [V, d]
  Tensor positions;     // [P, d], or empty
  float scale = 1.0f;
  int32_t position_offset = 0;
  int32_t first_id = 0;
  Tensor out;  // [T, d]
  // [d] f32: out = layer_norm of that sum; or empty.
  Tensor norm_weight = {}, norm_bias = {};
  float norm_eps = 1e-5f;
};
void embedding(Context& ctx, const EmbeddingArgs& args);

// out = (h - mean) / sqrt(var + eps) * weight + bias with h = x + residual (residual may be empty).
// `out` may alias x or residual. So may `sum`, but not `out`.
// rms: out = h / sqrt(mean of h^2 + eps) * weight, without a bias.
// groups: a row is that many groups of d values, such as heads of queries or keys. Each is normed
// by itself with the same weight. No residual, no sum.
struct LayerNormArgs {
  Tensor x;         // [T, groups * d]
  Tensor residual;  // [T, d], or empty
  Tensor weight;    // [d] f32
  Tensor bias;      // [d] f32; empty if `rms`
  float eps = 1e-5f;
  Tensor out;       // [T, d]
  Tensor sum = {};  // [T, d]: h, rounded to the activations' type; or empty
  bool rms = false;
  int groups = 1;
};
void layer_norm(Context& ctx, const LayerNormArgs& args);

// out = activation(gate) * up; computed in f32. `out` may be `gate`.
struct GatedActivationArgs {
  Tensor gate, up;  // [T, d]
  Activation activation;
  Tensor out;  // [T, d]
};
void gated_activation(Context& ctx, const GatedActivationArgs& args);

// out = x + y; `out` may be x or y.
struct AddRowsArgs {
  Tensor x, y, out;  // [T, d]
};
void add_rows(Context& ctx, const AddRowsArgs& args);

// out[i] = x[rows[i]]; of activations, or of f32.
struct GatherRowsArgs {
  Tensor x;     // [T, d]
  Tensor rows;  // [R] i32
  Tensor out;   // [R, d]
};
void gather_rows(Context& ctx, const GatherRowsArgs& args);

// out[rows[i]] = x[i]; rows differ.
struct ScatterRowsArgs {
  Tensor x;     // [R, d]
  Tensor rows;  // [R] i32
  Tensor out;   // [T, d]
};
void scatter_rows(Context& ctx, const ScatterRowsArgs& args);

// out[t] = the sum of factors[t][i] * x[places[t][i]], added in order in f32; a place of -1 adds
// nothing.
struct CombineRowsArgs {
  Tensor x;        // [R, d]; empty where all places are -1
  Tensor places;   // [T, n] i32
  Tensor factors;  // [T, n] f32
  Tensor out;      // [T, d]
};
void combine_rows(Context& ctx, const CombineRowsArgs& args);

// out[i] = the sum of the rows [ranges[i][0], ranges[i][1]) of x, added in order in f32.
struct SumRangesArgs {
  Tensor x;       // [T, d]
  Tensor ranges;  // [R, 2] i32, none of them empty
  Tensor out;     // [R, d], of activations or of f32
};
void sum_ranges(Context& ctx, const SumRangesArgs& args);

// im2col: the windows of a convolution over the rows of each sequence, to be multiplied with its
// weight [out, d, width], as it lies in a file. In row p of a sequence's `out`, feature c * width +
// k is feature c of row stride * p + k - padding, or 0 if the sequence has no such row.
struct ConvWindowsArgs {
  Tensor x;           // [rows, d], of f32 or the activations' type
  Tensor start_loc;   // [sequences + 1] i32: indptr of x
  Tensor out_starts;  // [sequences + 1] i32: indptr of out
  int width;          // of a window, at least 1
  int stride;         // at least 1
  int padding;        // rows of zeros before the first, at least 0
  Tensor out;         // [out rows, d * width]
};
void conv_windows(Context& ctx, const ConvWindowsArgs& args);

// A convolution of each feature by itself over pictures, whose rows are points, row by row. It
// keeps the size: windows reach (size - 1) / 2 points over the edges, where there are zeros.
struct PictureConvArgs {
  Tensor x;           // [pictures * height * width, d]
  int height, width;  // of a picture, in points
  int size;           // of a window's side, odd
  Tensor weight;      // [size * size, d] f32, rows adjacent: a window's points, row by row
  Tensor bias;        // [d] f32
  Tensor out;         // as x
};
void picture_conv(Context& ctx, const PictureConvArgs& args);

// A group norm of one group: out[t][c] = (x[t][c] - mean) / sqrt(var + eps) * weight[c] + bias[c].
// Mean and variance are over all values of t's sequence.
struct SequenceNormArgs {
  Tensor x;          // [rows, d]
  Tensor start_loc;  // [sequences + 1] i32: indptr of x
  Tensor weight;     // [d] f32
  Tensor bias;       // [d] f32
  float eps = 1e-5f;
  Tensor out;  // [rows, d]; may be x
};
void sequence_norm(Context& ctx, const SequenceNormArgs& args);

// x = cap * tanh(x / cap), in place; of f32 logits.
struct SoftCapArgs {
  Tensor x;  // [T, d] f32
  float cap;
};
void soft_cap(Context& ctx, const SoftCapArgs& args);

}  // namespace ops
}  // namespace tandem
