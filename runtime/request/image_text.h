// A text or token ids beside an image, for encoders that read both.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "models/config/config.h"
#include "models/config/limits.h"
#include "runtime/media/image/image_processor.h"
#include "runtime/protocol/tandem.pb.h"
#include "text/tokenizer.h"

namespace tandem {

// What the tokenizer gets: a text with the tokens that stand for the image, as the family has it
// (models/family.h), or ids as they are. An image alone has an empty text.
struct Words {
  proto::PromptPart part;  // without the image
  bool add_special = true;
};
// `tokenizer` may be null where there is no text. Throws InputError.
Words words_beside_image(const proto::PromptPart& part, const ModelConfig& config,
                         const Tokenizer* tokenizer, const FramesBesideIds& beside);

// The image's frames, and a frame for each id's box, if the model has such. Nothing: the ids are
// all. Throws InputError with the field: for ids that do not fit the image, an image without
// `images`, more positions than the model has (0: no limit).
std::optional<proto::EncoderFrames> frames_beside_ids(const proto::PromptPart& part,
                                                      std::span<const int32_t> ids,
                                                      const FrameLimits& limits, int positions,
                                                      const ImageProcessor* images);

}  // namespace tandem
