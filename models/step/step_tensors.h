// The indices of a step for the ops. On the CPU they are borrowed from the ModelInput; on a device
// they are uploaded in one copy, with the plans of its attention.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/attention_plan.h"
#include "kernels/core/context.h"
#include "kernels/ops.h"
#include "models/step/attention_metadata.h"
#include "models/step/cross_weights.h"

namespace tandem {

// What plans depend on besides lengths. Heads are this rank's.
struct StepLayout {
  int encoder_heads = 0, encoder_head_dim = 0;
  int decoder_heads = 0, decoder_head_dim = 0;
  bool pages_in_8_bits = false;  // which tiles do not read
};

// The encoder and the decoder of a step are planned and uploaded separately. So the decoder's half
// has a recurring shape, whatever the encoder's work is.
enum class StepHalf : uint8_t { kEncoder, kDecoder };

// The longest sequences, and the size of their pages.
struct StepRoom {
  int32_t block_size = 16;
  int32_t self_keys = 0, cross_keys = 0;  // of a sequence at most; 0: no limit is known
};

// The shape of a decoder's half. It determines all sizes that the half uploads and computes, so
// halves of one shape share a recording (DeviceBackend::record). Only halves without tiles have a
// shape.
struct StepShape {
  struct Attention {
    int32_t pieces = 0;   // groups of up to kRowsPerBlock queries of a sequence
    int32_t keys = 0;     // there is room for so many of each sequence (listed_keys())
    int32_t queries = 0;  // of a piece at most
    bool shared_keys = false;
    auto operator<=>(const Attention&) const = default;
  };
  int32_t tokens = 0;
  Attention self, cross;
  auto operator<=>(const StepShape&) const = default;

  // For keys of recordings.
  std::vector<int32_t> values() const;
  // The shape of that many sequences that decode one token each.
  static StepShape of_decoding(int32_t sequences, int32_t self_keys, int32_t cross_keys);
};

// Keys for which lists have room: 1024, or the next power of two from `longest`. At most `limit`
// (0: no limit), unless a sequence is longer. So growing sequences cause few shapes.
int32_t listed_keys(int32_t longest, int32_t limit);

// A half's data for a device, before the upload.
struct StepPlan {
  StepPlan(const Context& ctx, const ModelInput& in, const StepLayout& layout, StepHalf half);

  const ModelInput& in;
  StepLayout layout;
  StepHalf half;
  AttentionPlan encoder, global, self, cross;
  int32_t tokens = 0;  // rows of the decoder
  int32_t self_pages = 0, cross_pages = 0;

  // Whether it has a shape: tokens and pieces are a padded_size().
  bool can_pad() const;
  StepShape shape(const StepRoom& room) const;
  // Pads the half to the shape, with tokens that belong to no sequence and write nothing, and with
  // work without queries. Such work gets blocks only as far as the device has room for them.
  void fill_up(const StepShape& shape, const StepRoom& room);
};

// The padded size of lists that come and go: 0, or a power of two from 64.
int32_t doubled_size(int32_t n);

// A model's own list of a step for the ops, on their device; empty for an empty list. A device gets
// it by a copy of its own, so that steps with such lists are not recorded.
Tensor step_list(Context& ctx, const std::vector<int32_t>& list);
Tensor step_values(Context& ctx, const std::vector<float>& list);
// The same as ranges of rows, [n / 2, 2].
Tensor step_ranges(Context& ctx, const std::vector<int32_t>& list);

// Sequences that a model cuts or adds itself, for attention: in an encoder.
struct OwnSequences {
  Tensor starts;  // [sequences + 1] i32: indptr of their queries
  Tensor ranges;  // [sequences, 2]: the side keys of each (ops::SideKeys)
  // Of a device; elsewhere nothing.
  std::optional<ops::DeviceAttentionPlan> planned = {};
  const ops::DeviceAttentionPlan* plan() const { return planned ? &*planned : nullptr; }
};
// heads: of this rank, of head_dim values.
std::optional<ops::DeviceAttentionPlan> plan_own(Context& ctx,
                                                 std::span<const AttentionSequence> sequences,
                                                 int heads, int head_dim);

struct StepTensors {
  // The CPU's; borrows `in`.
  explicit StepTensors(const ModelInput& in);
  // On the CPU as above. On a device: uploads the planned half. `along` (device only): lists that
  // go in the same copy. there[i]: the tensor of along[i], empty for an empty list.
  StepTensors(Context& ctx, const StepPlan& plan, std::span<const std::vector<int32_t>> along = {},
              std::span<Tensor> there = {});

  struct Pages {
    Tensor indptr, page_indices, last_page_len;  // a device has the indices only
  };
  Tensor input_ids, positions;                    // [T]
  Tensor encoder_input_ids, encoder_positions;    // [encoder tokens]
  Tensor encoder_frames;                          // [frames, width] f32, instead of ids
  Tensor frame_start_loc;                         // [encoders + 1]
  Tensor encoder_start_loc;                       // [encoders + 1]
  Tensor encoder_ranges;                          // [encoders, 2]
  Tensor query_start_loc, cross_query_start_loc;  // the CPU's
  Tensor global_rows;       // [tokens with global attention]: rows of the encoder; or empty
  Tensor global_start_loc;  // [encoders + 1]; on the CPU perhaps empty
  const AttentionMetadata* host = nullptr;  // the step as the host has it; borrowed
  // Blocks of the encoder's rows that stand for their tokens, if the model has such
  // (models/blocks/attention/summary_attention.h).
  struct Summaries {
    Tensor blocks;  // [summaries, 2]: rows of the encoder
    Tensor ranges;  // [encoders, 2]: summaries of each sequence
  };
  Summaries summaries;
  // Of encoders with BlockAttention (models/blocks/attention/block_attention.h).
  struct Blocks {
    std::array<OwnSequences, 2> of_tokens;  // blocks; blocks of which the first is half as long
    OwnSequences carried;                   // the vectors that each sequence carries along
  };
  Blocks blocks;
  // Of encoders with SparseAttention (models/blocks/attention/sparse_attention.h).
  struct Sparse {
    OwnSequences blocks;
    Tensor keys;   // [blocks, 2]: rows of the encoder that each sees
    Tensor outer;  // rows of the encoder: the first and last block of each sequence
  };
  Sparse sparse;
  // [encoder tokens, 4] f32, of encoders with BoxAttention (blocks/pictures/box_attention.h).
  Tensor boxes;
  // Of decoders whose tokens have rows of streams beside their own
  // (models/blocks/attention/stream_attention.h).
  struct Streams {
    // Sequences of whole prompts, and their pages.
    struct Table {
      Tensor starts;
      Pages pages;
      std::optional<ops::DeviceAttentionPlan> planned = {};
      const ops::DeviceAttentionPlan* plan() const { return planned ? &*planned : nullptr; }
    };
    int64_t tokens = 0;  // T: rows [T, 2 T) are the first stream's. 0: there are no streams
    int count = 0;       // streams of whole prompts, one behind another, behind those
    int64_t rows = 0;    // of each of them
    Table self, cross;
    Tensor positions;  // [rows] i32
    Tensor biases;     // [count * rows, heads] i32: whose biases, of which head, each row takes
    Tensor results;    // [T] i32: rows that are the tokens' results; empty: [T, 2 T)
  };
  Streams streams;
  Tensor slot_mapping, cross_slot_mapping;
  Pages self_pages, cross_pages;
  // [tokens, r] for each of the model's tables of rotary frequencies of a side, if it has any
  // (ops::rotary_angles; models/blocks/seq2seq.h).
  std::vector<Tensor> encoder_angles, angles;
  // Of the decoder's half; null: none are asked for.
  const CrossWeights* cross_weights = nullptr;

  // The same with other encoder sequences, one behind another, for attention of a part of a model
  // that reads other rows. heads: of this rank, of head_dim values.
  StepTensors of_sequences(Context& ctx, std::span<const int32_t> lengths, int heads,
                           int head_dim) const;

  // Null on the CPU.
  const ops::DeviceAttentionPlan* encoder_plan() const { return planned_ ? &encoder_ : nullptr; }
  // The plan of the global rows' queries over their whole sequences.
  const ops::DeviceAttentionPlan* global_plan() const { return planned_ ? &global_ : nullptr; }
  const ops::DeviceAttentionPlan* self_plan() const { return planned_ ? &self_ : nullptr; }
  const ops::DeviceAttentionPlan* cross_plan() const { return planned_ ? &cross_ : nullptr; }

 private:
  void upload(Context& ctx, const StepPlan& plan, std::span<const std::vector<int32_t>> along,
              std::span<Tensor> there);
  void upload_frames(Context& ctx, const EncoderFrames& frames);

  bool planned_ = false;
  ops::DeviceAttentionPlan encoder_, global_, self_, cross_;
};

}  // namespace tandem
