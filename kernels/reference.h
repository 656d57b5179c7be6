// Plain versions of the ops of kernels/ops.h and sound_ops.h that sum, for tests: double precision
// inside, no threads, no tricks. (Ops of kernels/sampling_ops.h are compared with the CPU's.)
#pragma once

#include <span>
#include <vector>

#include "kernels/ops.h"
#include "kernels/sound_ops.h"

namespace tandem::reference {

// y[t][n] = activation(sum_k w[n][k] x[t][k] + bias[n]); w as it lies in a file.
void linear(const MatrixView& w, const Tensor& x, const Tensor& bias, Activation activation,
            const Tensor& out);
// Element i of values of that type.
double element(const void* data, DType dtype, int64_t i);
double activate(Activation activation, double x);
void embedding(const ops::EmbeddingArgs& args);
void layer_norm(const ops::LayerNormArgs& args);
void gated_activation(const ops::GatedActivationArgs& args);
void soft_cap(const ops::SoftCapArgs& args);
void conv_windows(const ops::ConvWindowsArgs& args);
void sequence_norm(const ops::SequenceNormArgs& args);
void rotary_angles(const ops::RotaryAnglesArgs& args);
void rotary(const ops::RotaryArgs& args);
void write_kv(const ops::WriteKvArgs& args);
void ragged_attention(const ops::RaggedAttentionArgs& args);
void picture_attention(const ops::PictureAttentionArgs& args);
void channel_attention(const ops::ChannelAttentionArgs& args);
void picture_conv(const ops::PictureConvArgs& args);
void box_attention(const ops::BoxAttentionArgs& args);
void bucket_attention(const ops::BucketAttentionArgs& args);
void paged_attention(const ops::PagedAttentionArgs& args);
void combine_rows(const ops::CombineRowsArgs& args);
void sum_ranges(const ops::SumRangesArgs& args);
void join_best(const ops::JoinBestArgs& args);
void merge_attention(const ops::MergeAttentionArgs& args);
void attention_weights(const ops::AttentionWeightsArgs& args);
void compress_frames(const ops::CompressFramesArgs& args);
void feature_norm(const ops::FeatureNormArgs& args);
void depthwise_conv(const ops::DepthwiseConvArgs& args);
void relative_attention(const ops::RelativeAttentionArgs& args);

}  // namespace tandem::reference
