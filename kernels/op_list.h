// The list of ops: OP(name, arguments, file). ops.h, attention_ops.h, decoder_ops.h, sound_ops.h,
// sampling_ops.h and layouts/layout_ops.h declare and describe them. The devices' tables and
// function declarations are generated from this list. The files of an op are named after the third
// column, or begin with it and "_". There is one in kernels/check, and at least one each in
// kernels/cpu and kernels/cuda (tests/scripts/op_files_test.sh).
//
// A new op: its arguments and contract in one of these, a line here, and a function in each of the
// three.
#pragma once

// clang-format off
#define TANDEM_OPS(OP)                                                                           \
  OP(linear, LinearArgs, linear)                                                                 \
  OP(linear_best, LinearBestArgs, linear)                                                        \
  OP(join_best, JoinBestArgs, linear)                                                            \
  OP(embedding, EmbeddingArgs, rows)                                                             \
  OP(layer_norm, LayerNormArgs, rows)                                                            \
  OP(gated_activation, GatedActivationArgs, rows)                                                \
  OP(add_rows, AddRowsArgs, rows)                                                                \
  OP(gather_rows, GatherRowsArgs, rows)                                                          \
  OP(scatter_rows, ScatterRowsArgs, rows)                                                        \
  OP(combine_rows, CombineRowsArgs, rows)                                                        \
  OP(sum_ranges, SumRangesArgs, rows)                                                            \
  OP(soft_cap, SoftCapArgs, rows)                                                                \
  OP(conv_windows, ConvWindowsArgs, convolution)                                                 \
  OP(picture_conv, PictureConvArgs, convolution)                                                 \
  OP(sequence_norm, SequenceNormArgs, convolution)                                               \
  OP(depthwise_conv, DepthwiseConvArgs, convolution)                                             \
  OP(feature_norm, FeatureNormArgs, convolution)                                                 \
  OP(apply_activation, ApplyActivationArgs, frames)                                              \
  OP(compress_frames, CompressFramesArgs, frames)                                                \
  OP(rotary_angles, RotaryAnglesArgs, rotary)                                                    \
  OP(rotary, RotaryArgs, rotary)                                                                 \
  OP(write_kv, WriteKvArgs, kv)                                                                  \
  OP(copy_blocks, CopyBlocksArgs, kv)                                                            \
  OP(ragged_attention, RaggedAttentionArgs, attention)                                           \
  OP(picture_attention, PictureAttentionArgs, attention)                                         \
  OP(relative_attention, RelativeAttentionArgs, attention)                                       \
  OP(channel_attention, ChannelAttentionArgs, attention)                                         \
  OP(box_attention, BoxAttentionArgs, attention)                                                 \
  OP(bucket_attention, BucketAttentionArgs, attention)                                           \
  OP(paged_attention, PagedAttentionArgs, attention)                                             \
  OP(merge_attention, MergeAttentionArgs, attention)                                             \
  OP(attention_weights, AttentionWeightsArgs, attention)                                         \
  OP(decoder_step, DecoderStepArgs, decoder_step)                                                \
  OP(attend_ragged, AttendRaggedArgs, layout_attention)                                          \
  OP(attend_pages, AttendPagesArgs, layout_attention)                                            \
  OP(attend_latent, AttendLatentArgs, layout_attention)                                          \
  OP(merge_states, MergeStatesArgs, layout_attention)                                            \
  OP(append_pages, AppendPagesArgs, layout_append)                                               \
  OP(append_latent, AppendLatentArgs, layout_append)                                             \
  OP(pack_bits, PackBitsArgs, layout_masks)                                                      \
  OP(select, SelectArgs, select)                                                                 \
  OP(rank_tokens, RankTokensArgs, select)                                                        \
  OP(draw, DrawArgs, draw)                                                                       \
  OP(begin_sequences, BeginSequencesArgs, sequence_memory)                                       \
  OP(append_tokens, AppendTokensArgs, sequence_memory)                                           \
  OP(substitute_ids, SubstituteIdsArgs, sequence_memory)                                         \
  OP(substitute_pages, SubstitutePagesArgs, sequence_memory)                                     \
  OP(tell_host, TellHostArgs, sequence_memory)                                                   \
  OP(search_beams, SearchBeamsArgs, beam_search)                                                 \
  OP(move_beam_pages, MoveBeamPagesArgs, beam_search)
// clang-format on
