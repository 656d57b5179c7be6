// The indices of a step as the ops take them: on the CPU borrowed from the ModelInput, on a device
// sent there in one copy, with the plans of its attention.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/attention_plan.h"
#include "kernels/core/context.h"
#include "kernels/ops.h"
#include "models/step/attention_metadata.h"

namespace tandem {

// What plans depend on besides lengths. Heads are this rank's.
struct StepLayout {
  int encoder_heads = 0, encoder_head_dim = 0;
  int decoder_heads = 0, decoder_head_dim = 0;
  bool f8_pages = false;  // which tiles do not read
};

// The encoder and the decoder of a step are planned and sent apart: the decoder's half is of a
// shape that comes again, whatever the encoder had to do before.
enum class StepHalf : uint8_t { kEncoder, kDecoder };

// A decoder's half is the one recorded earlier (DeviceBackend::record) if it has the same shape:
// the sizes of all that it uploads and computes. Only halves without tiles have one.
struct StepShape {
  // tokens; then for self- and for cross-attention: work, pages, partials, tickets, queries of a
  // work.
  std::array<int32_t, 11> sizes{};
  auto operator<=>(const StepShape&) const = default;
};

// Everything of a half that goes to a device, before it goes there.
struct StepPlan {
  StepPlan(const Context& ctx, const ModelInput& in, const StepLayout& layout, StepHalf half);

  const ModelInput& in;
  StepLayout layout;
  StepHalf half;
  AttentionPlan encoder, global, self, cross;
  int32_t tokens = 0;  // rows of the decoder
  int32_t self_pages = 0, cross_pages = 0;

  // Whether it has a shape; fills the half up to it: to the next size of a short list, with
  // tokens that belong to no sequence and write nothing, and with work of no queries.
  bool can_pad() const;
  StepShape pad();
};

// Tokens and pieces of work are filled up to a padded_size(); lists that come and go with lengths
// to 0, or a power of two from 64. Few shapes; what fills lists up costs bytes only.
int32_t doubled_size(int32_t n);

struct StepTensors {
  // The CPU's; borrows `in`.
  explicit StepTensors(const ModelInput& in);
  // A context's: of the CPU as above, of a device the half that is planned, which it uploads.
  // `along` (of a device): lists that go in the same copy; there[i]: where along[i] lies, an empty
  // tensor for an empty list.
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
  Tensor query_start_loc, cross_query_start_loc;  // the CPU's
  Tensor global_rows;       // [tokens with global attention]: rows of the encoder; or empty
  Tensor global_start_loc;  // [encoders + 1]; on the CPU perhaps empty
  Tensor slot_mapping, cross_slot_mapping;
  Pages self_pages, cross_pages;
  // [tokens, r] for each table of rotary frequencies of a side: the model's, where it has any
  // (ops::rotary_angles; models/blocks/seq2seq.h).
  std::vector<Tensor> encoder_angles, angles;

  // Null on the CPU.
  const ops::DeviceAttentionPlan* encoder_plan() const { return planned_ ? &encoder_ : nullptr; }
  // Of queries of the global rows over all of their sequences.
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
