#include "runtime/request/image_text.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "models/family.h"

namespace tandem {
namespace {

const std::string& image_of(const proto::PromptPart& part) {
  return part.has_image() ? part.image() : part.picture();
}

void check_image_ids(std::span<const int32_t> ids, const std::string& field,
                     const FramesBesideIds& beside) {
  if (beside.image_id < 0) return;
  const int64_t count = std::count(ids.begin(), ids.end(), beside.image_id);
  if (count == beside.image_positions) return;
  throw invalid_request(field, "has " + std::to_string(count) + " tokens " +
                                   std::to_string(beside.image_id) +
                                   ", which stand for positions of the image; it has " +
                                   std::to_string(beside.image_positions));
}

// The whole page, where nothing is said of an id's place.
constexpr float kNowhere[] = {0.0f, 0.0f, 0.0f, 0.0f};

void add_boxes(const proto::PromptPart& part, size_t ids, proto::EncoderFrames& out) {
  auto& values = *out.mutable_values();
  for (size_t i = 0; i < ids; ++i) {
    if (part.boxes_size() > 0) {
      const proto::Box& box = part.boxes(static_cast<int>(i));
      for (const float edge : {box.left(), box.top(), box.right(), box.bottom()}) values.Add(edge);
    } else {
      for (const float edge : kNowhere) values.Add(edge);
    }
    for (int rest = static_cast<int>(std::size(kNowhere)); rest < out.width(); ++rest)
      values.Add(0.0f);
  }
  out.set_num_frames(out.num_frames() + static_cast<int32_t>(ids));
}

}  // namespace

Words words_beside_image(const proto::PromptPart& part, const ModelConfig& config,
                         const Tokenizer* tokenizer, const FramesBesideIds& beside) {
  Words out;
  out.part.set_field(part.field());
  if (part.has_global_attention()) *out.part.mutable_global_attention() = part.global_attention();
  if (part.has_token_ids()) {
    *out.part.mutable_token_ids() = part.token_ids();
    return out;
  }
  const bool has_image = part.has_image() || part.has_picture();
  std::string text = part.has_text() ? part.text() : std::string();
  const ModelFamily* family = family_of_type(config.model_type);
  if (family != nullptr && family->image_text != nullptr && tokenizer != nullptr) {
    ImageText made = family->image_text(
        text, {config, has_image, beside.image_positions,
               [&](int32_t id) { return tokenizer->id_to_token(id).value_or(""); }});
    text = std::move(made.text);
    out.add_special = made.add_special;
  }
  out.part.set_text(std::move(text));
  if (part.has_second()) *out.part.mutable_second() = part.second();
  return out;
}

std::optional<proto::EncoderFrames> frames_beside_ids(const proto::PromptPart& part,
                                                      std::span<const int32_t> ids,
                                                      const FrameLimits& limits, int positions,
                                                      const ImageProcessor* images) {
  const FramesBesideIds& beside = *limits.beside_ids;
  const std::string field = part.field().empty() ? "prompt.encoder" : part.field();
  const bool has_image = part.has_image() || part.has_picture();
  if (part.boxes_size() > 0 && !beside.has_boxes)
    throw invalid_request("bbox", "must not be given: the model knows no places of tokens");
  if (!has_image && !beside.has_boxes) return std::nullopt;
  proto::EncoderFrames out;
  out.set_width(limits.width);
  if (has_image) {
    if (images == nullptr)
      throw not_supported(field,
                          "the model's directory has no preprocessor_config.json, which says how "
                          "images are read");
    check_image_ids(ids, field, beside);
    out = images->frames(image_of(part), field, limits);
  }
  if (beside.has_boxes) add_boxes(part, ids.size(), out);
  const int64_t length =
      beside.length_of(ids, std::span(out.values().data(), static_cast<size_t>(out.values_size())));
  if (positions > 0 && length > positions)
    throw InputError(ErrorKind::kResource,
                     field + ": the model makes " + std::to_string(length) +
                         " positions of it, and has " + std::to_string(positions),
                     field);
  out.set_length(static_cast<int32_t>(length));
  return out;
}

}  // namespace tandem
