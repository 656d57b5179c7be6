// The ops of encoders of sound. Conventions: kernels/ops.h.
#pragma once

#include "kernels/core/activation.h"
#include "kernels/core/context.h"
#include "kernels/core/tensor.h"

namespace tandem::ops {

// x = activation(x), in place.
struct ApplyActivationArgs {
  Tensor x;  // [T, d]
  Activation activation;
};
void apply_activation(Context& ctx, const ApplyActivationArgs& args);

// A frame less its mean, over the root of its variance + eps, compressed: out = asinh(factor *
// that).
struct CompressFramesArgs {
  Tensor x;  // [T, d] f32
  float factor;
  float eps = 1e-6f;
  Tensor out;  // [T, d]
};
void compress_frames(Context& ctx, const CompressFramesArgs& args);

// Each feature by itself over the rows of each sequence: out[t][c] = (x[t][c] - mean) / sqrt(var +
// eps) * weight[c] + bias[c], mean and variance of feature c of t's sequence. (A group norm with a
// feature a group.)
struct FeatureNormArgs {
  Tensor x;          // [rows, d]
  Tensor start_loc;  // [sequences + 1] i32: indptr of x
  Tensor weight;     // [d] f32
  Tensor bias;       // [d] f32
  float eps = 1e-5f;
  Tensor out;  // [rows, d]; may be x
};
void feature_norm(Context& ctx, const FeatureNormArgs& args);

// A convolution of each feature by itself, over rows and columns alike. A row is x_columns columns
// of `features` values each, or of a single value, which all features of `out` read. With rows i
// and columns j of the kernel, feature c at row p and column q of a sequence's `out` is
//   activation(bias[c] + sum of weight[i * width + j][c] * x[stride p + i - row_padding]
//              [stride q + j - column_padding][c]),
// where rows and columns that are not there count as 0.
struct DepthwiseConvArgs {
  Tensor x;            // [rows, x_columns * features] or [rows, x_columns], of f32 or activations
  Tensor start_loc;    // [sequences + 1] i32: indptr of x
  Tensor out_starts;   // [sequences + 1] i32: indptr of out
  Tensor weight = {};  // [height * width, features] f32
  Tensor bias = {};    // [features] f32
  int x_columns = 1, out_columns = 1;
  int height = 1, width = 1;  // of the kernel
  int stride = 1;
  int row_padding = 0, column_padding = 0;  // before the first
  Activation activation = Activation::kNone;
  Tensor out;  // [out rows, out_columns * features]
};
void depthwise_conv(Context& ctx, const DepthwiseConvArgs& args);

// Attention of every token of a sequence to all of it, by what they are and by how far apart they
// are (Transformer-XL). With d = j - i, the score of query i and key j of a head is
//   scale * ((q[i] + q_bias) . k[j] + (q[i] + d_bias) . distances[zero + d]).
struct RelativeAttentionArgs {
  Tensor q, k, v;         // [T, num_heads * head_dim]
  Tensor indptr;          // [S + 1] i32
  Tensor distances;       // [D, num_heads * head_dim]; has a row for each distance in a sequence
  int32_t zero;           // the row of distance 0
  Tensor q_bias, d_bias;  // [num_heads * head_dim] f32
  int num_heads;
  int head_dim;
  float scale;
  Tensor out;  // as q
};
void relative_attention(Context& ctx, const RelativeAttentionArgs& args);

}  // namespace tandem::ops
