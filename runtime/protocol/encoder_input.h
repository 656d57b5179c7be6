// How long an encoder's input is: of ids their number, of frames what is said beside them.
#pragma once

#include <cstdint>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Positions of the encoder's sequence: rows of its output, tokens of the cross-attention cache. 0:
// there is no input.
inline int32_t encoder_length(const proto::EncoderDecoderInputs& inputs) {
  return inputs.has_encoder_frames() ? inputs.encoder_frames().length()
                                     : inputs.encoder_prompt_token_ids_size();
}

// The shape without the values, which nobody reads twice.
inline proto::EncoderFrames shape_of(const proto::EncoderFrames& frames) {
  proto::EncoderFrames out;
  out.set_length(frames.length());
  out.set_num_frames(frames.num_frames());
  out.set_width(frames.width());
  return out;
}

}  // namespace tandem
