#include "runtime/protocol/json/prompt_reader.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings/nearest_name.h"
#include "base/strings/utf8.h"
#include "runtime/protocol/json/json_fields.h"
#include "runtime/protocol/json/option_values.h"
#include "runtime/protocol/json/speech_params_reader.h"
#include "runtime/protocol/pooling_kind.h"

namespace tandem {

using nlohmann::json;

namespace {

constexpr const char* kFormats =
    "a string, a list of token ids, {\"prompt\": ...}, {\"prompt_token_ids\": [...]} or "
    "{\"encoder_prompt\": ..., \"decoder_prompt\": ...}";

void check_keys(const json& object, const std::string& field,
                const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw invalid_request(field, "unknown key " + describe(json(key)) + suggestion(key, known));
}

// Absent, null and {} say nothing.
void refuse_data(const json& object, const std::string& field, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null() || (it->is_object() && it->empty())) return;
  throw not_supported(field + "." + key, "not built yet");
}

proto::PromptPart text_part(std::string text, const std::string& field) {
  proto::PromptPart part;
  part.set_text(std::move(text));
  part.set_field(field);
  return part;
}

proto::PromptPart ids_part(const json& value, const std::string& field) {
  // The vocabulary is compared where the model is known.
  const std::vector<int32_t> ids =
      read_token_ids(value, field, std::numeric_limits<int32_t>::max());
  if (ids.empty()) throw invalid_request(field, "must not be empty");
  proto::PromptPart part;
  part.mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  part.set_field(field);
  return part;
}

const json& value_of(const json& object, const char* key) {
  static const json null;
  const auto it = object.find(key);
  return it == object.end() ? null : *it;
}

void set_pooling(const json& prompt, proto::Prompt& out) {
  const json &kind = value_of(prompt, "pooling"), &normalize = value_of(prompt, "normalize");
  if (const json& task = value_of(prompt, "task"); !task.is_null()) {
    if (task != "classify" && task != "answer")
      throw invalid_request("task", describe(task) + " is not one of classify, answer");
    if (!kind.is_null() || !normalize.is_null())
      throw invalid_request("pooling", "is not for \"task\": " + describe(task));
    out.mutable_pooling()->set_kind(task == "classify" ? proto::Pooling::LABELS
                                                       : proto::Pooling::SPANS);
    return;
  }
  if (kind.is_null()) {
    if (!normalize.is_null()) throw invalid_request("normalize", "needs \"pooling\"");
    return;
  }
  *out.mutable_pooling() = read_pooling(kind, normalize);
}

void check_frames(const proto::EncoderFrames& frames, const std::string& field) {
  const auto check_size = [&](const char* name, int size, int least) {
    if (size < least)
      throw invalid_request(field + "." + name, "is " + std::to_string(size) +
                                                    ", must be at least " + std::to_string(least));
  };
  check_size("num_frames", frames.num_frames(), 1);
  check_size("width", frames.width(), 1);
  check_size("length", frames.length(), 0);
  const int64_t size = int64_t{frames.num_frames()} * frames.width();
  if (frames.values_size() != size)
    throw invalid_request(field + ".values", std::to_string(frames.values_size()) +
                                                 " numbers instead of " + std::to_string(size));
  for (int i = 0; i < frames.values_size(); ++i)
    if (!std::isfinite(frames.values(i)))
      throw invalid_request(field + ".values", "number " + std::to_string(i) + " is not finite");
}

void check_sound(const proto::Sound& sound, const std::string& field) {
  if (sound.file().empty()) throw invalid_request(field, "is empty: it has no bytes");
  if (sound.file().size() > kMaxSoundBytes)
    throw InputError(ErrorKind::kResource,
                     field + ": has " + std::to_string(sound.file().size()) +
                         " bytes, more than the " + std::to_string(kMaxSoundBytes) +
                         " that are taken",
                     field);
  check_speech_params(sound.params());
}

// Of ids; what a text becomes is not known here.
void check_boxes(const proto::PromptPart& part, const std::string& field) {
  if (part.boxes_size() == 0) return;
  if (!part.has_token_ids())
    throw invalid_request("bbox", "is of prompt_token_ids, which " + field + " has none of");
  if (part.boxes_size() != part.token_ids().ids_size())
    throw invalid_request("bbox", "has " + std::to_string(part.boxes_size()) + " boxes for " +
                                      std::to_string(part.token_ids().ids_size()) + " token ids");
  for (const proto::Box& box : part.boxes())
    for (const float edge : {box.left(), box.top(), box.right(), box.bottom()})
      if (!(edge >= 0 && edge <= 1))
        throw invalid_request(
            "bbox", "has " + describe(json(edge)) + "; edges are parts of the page, from 0 to 1");
}

void check_part(const proto::PromptPart& part, const std::string& name, bool encoder = false) {
  const std::string& field = part.field().empty() ? name : part.field();
  if ((part.has_frames() || part.has_image() || part.has_sound() || part.has_picture() ||
       part.boxes_size() > 0) &&
      !encoder)
    throw invalid_request(field, "must be a text or token ids");
  if (part.has_picture() && (!(part.has_text() || part.has_token_ids()) || part.has_second()))
    throw invalid_request(field, "a picture stands beside one text or token ids");
  check_boxes(part, field);
  if (part.has_second() && (!encoder || !part.has_text()))
    throw invalid_request("text_pair", "is the second of two texts; there is no first one");
  if (part.has_global_attention() && !encoder)
    throw invalid_request("global_attention", "is of the encoder's tokens, not of " + field);
  check_positions(part.global_attention(), "global_attention");
  if (part.has_frames()) check_frames(part.frames(), field);
  if (part.has_sound()) check_sound(part.sound(), field);
  if (part.content_case() == proto::PromptPart::CONTENT_NOT_SET)
    throw invalid_request(field, "is missing");
  if (part.has_token_ids() && part.token_ids().ids().empty())
    throw invalid_request(field, "must not be empty");
}

// Of frames, by a decoder that reads ids.
void check_alignment(const proto::Prompt& prompt) {
  if (!prompt.encoder().has_frames() || !prompt.decoder().has_token_ids() || prompt.has_target())
    throw invalid_request("pooling", "an alignment is of frames and the decoder's token ids");
  const proto::Alignment& wanted = prompt.pooling().alignment();
  if (wanted.heads().empty()) throw invalid_request("pooling.alignment.heads", "is missing");
  if (wanted.positions() < 1)
    throw invalid_request("pooling.alignment.positions", "must be at least 1");
  if (wanted.first_token() < 0)
    throw invalid_request("pooling.alignment.first_token", "must not be negative");
}

}  // namespace

void check_prompt(const proto::Prompt& prompt) {
  check_part(prompt.encoder(), "prompt", /*encoder=*/true);
  if (prompt.has_decoder()) check_part(prompt.decoder(), "decoder_prompt");
  if (prompt.has_target()) check_part(prompt.target(), "target");
  if (!prompt.has_pooling()) return;
  if (aligns(prompt.pooling())) return check_alignment(prompt);
  const bool head = reads_decoder(prompt.pooling());
  if (prompt.has_decoder() || prompt.has_target())
    throw invalid_request(head ? "task" : "pooling",
                          "is of the source alone; leave out decoder_prompt and target");
  if (!proto::Pooling::Kind_IsValid(prompt.pooling().kind()))
    throw invalid_request("pooling", "is not one of mean, cls, last");
  const proto::PromptPart& encoder = prompt.encoder();
  if (head && !encoder.has_text() && !encoder.has_token_ids())
    throw invalid_request("task", "is for texts and token ids");
}

namespace {

// A file, with no text or an empty one beside it. Nothing: there is none.
std::optional<proto::PromptPart> read_file(const json& value, const std::string& field,
                                           ReadFile read) {
  proto::PromptPart part;
  const std::string data = field + ".multi_modal_data";
  if (!read_media(value_of(value, "multi_modal_data"), data, read, part)) return std::nullopt;
  for (const char* key : {"text_pair", "truncation", "global_attention"})
    if (const json& beside = value_of(value, key); !beside.is_null() && beside != "")
      throw invalid_request(field + "." + key, "must be empty beside multi_modal_data");
  return part;
}

bool is_said(const json& value) { return !value.is_null() && value != ""; }

// A list of [left, top, right, bottom].
void read_boxes(const json& value, const std::string& field, proto::PromptPart& part) {
  if (value.is_null()) return;
  const auto valid = [](const json& box) {
    return box.is_array() && box.size() == 4 &&
           std::all_of(box.begin(), box.end(), [](const json& n) { return n.is_number(); });
  };
  if (!value.is_array() || !std::all_of(value.begin(), value.end(), valid))
    throw invalid_request(field, "must be a list of [left, top, right, bottom]");
  for (const json& box : value) {
    proto::Box& out = *part.add_boxes();
    out.set_left(box[0].get<float>());
    out.set_top(box[1].get<float>());
    out.set_right(box[2].get<float>());
    out.set_bottom(box[3].get<float>());
  }
}

// "text_pair", and how a pair that is too long is cut.
void read_second(const json& value, const std::string& field, proto::PromptPart& part) {
  const json &second = value_of(value, "text_pair"), &cut = value_of(value, "truncation");
  if (second.is_null()) {
    if (!cut.is_null()) throw invalid_request(field + ".truncation", "is of a text_pair");
    return;
  }
  if (!part.has_text()) throw invalid_request(field + ".text_pair", "needs a text in prompt");
  part.mutable_second()->set_text(read_string(second, field + ".text_pair"));
  if (cut.is_null() || cut == "longest_first") return;
  if (cut != "only_first")
    throw invalid_request(field + ".truncation",
                          describe(cut) + " is not one of longest_first, only_first");
  part.mutable_second()->set_cut_first(true);
}

}  // namespace

proto::PromptPart read_prompt_part(const json& value, const std::string& field, ReadFile reader) {
  if (value.is_string()) return text_part(value.get<std::string>(), field);
  if (value.is_array()) return ids_part(value, field);
  if (!value.is_object())
    throw invalid_request(field, std::string("must be ") + kFormats + ", not " + describe(value));
  check_keys(value, field,
             {"prompt", "text_pair", "truncation", "prompt_token_ids", "prompt_tokens",
              "global_attention", "bbox", "multi_modal_data", "mm_processor_kwargs"});
  refuse_data(value, field, "mm_processor_kwargs");
  std::optional<proto::PromptPart> file = tandem::read_file(value, field, reader);
  if (file && !is_said(value_of(value, "prompt")) && !value.contains("prompt_token_ids") &&
      !value.contains("prompt_tokens")) {
    if (!value_of(value, "bbox").is_null())
      throw invalid_request(field + ".bbox", "is of prompt_token_ids, of which there are none");
    return std::move(*file);
  }
  std::string found;
  for (const char* key : {"prompt", "prompt_token_ids", "prompt_tokens"}) {
    if (!value.contains(key)) continue;
    if (!found.empty()) throw invalid_request(field, "has both " + found + " and " + key);
    found = key;
  }
  if (found.empty()) throw invalid_request(field, "has neither prompt nor prompt_token_ids");
  const std::string inner = field + "." + found;
  proto::PromptPart part = found == "prompt" ? text_part(read_string(value[found], inner), inner)
                                             : ids_part(value[found], inner);
  if (file) part.set_picture(std::move(*file->mutable_image()));
  read_boxes(value_of(value, "bbox"), field + ".bbox", part);
  read_second(value, field, part);
  if (const json& global = value_of(value, "global_attention"); !global.is_null())
    *part.mutable_global_attention() = read_positions(global, field + ".global_attention");
  return part;
}

proto::Pooling read_pooling(const json& kind, const json& normalize) {
  static const std::map<std::string, proto::Pooling::Kind> kinds = {
      {"mean", proto::Pooling::MEAN}, {"cls", proto::Pooling::CLS}, {"last", proto::Pooling::LAST}};
  const auto it = kind.is_string() ? kinds.find(kind.get<std::string>()) : kinds.end();
  if (it == kinds.end())
    throw invalid_request("pooling", describe(kind) + " is not one of mean, cls, last");
  proto::Pooling out;
  out.set_kind(it->second);
  out.set_normalize(normalize.is_null() || read_bool(normalize, "normalize"));
  return out;
}

proto::Prompt text_prompt(const std::string& text, const std::string& field) {
  check_utf8(text, field);
  proto::Prompt out;
  *out.mutable_encoder() = text_part(text, field);
  return out;
}

proto::Prompt read_prompt(const json& prompt, ReadFile read_file) {
  const auto has = [&](const char* key) { return prompt.is_object() && prompt.contains(key); };
  const bool is_pair = has("encoder_prompt") || has("decoder_prompt") || has("target") ||
                       has("append_eos") || has("pooling") || has("normalize") || has("task");
  proto::Prompt out;
  if (!is_pair) {
    *out.mutable_encoder() = read_prompt_part(prompt, "prompt", read_file);
    return out;
  }
  check_keys(
      prompt, "prompt",
      {"encoder_prompt", "decoder_prompt", "target", "append_eos", "pooling", "normalize", "task"});
  if (!prompt.contains("encoder_prompt"))
    throw invalid_request("prompt.encoder_prompt",
                          "is missing: only the decoder's prompt may be left out");
  *out.mutable_encoder() =
      read_prompt_part(prompt["encoder_prompt"], "prompt.encoder_prompt", read_file);
  if (const json& decoder = value_of(prompt, "decoder_prompt"); !decoder.is_null())
    *out.mutable_decoder() = read_prompt_part(decoder, "prompt.decoder_prompt");
  if (const json& target = value_of(prompt, "target"); !target.is_null()) {
    *out.mutable_target() = read_prompt_part(target, "target");
    out.set_append_eos(true);
  }
  if (const json& append = value_of(prompt, "append_eos"); !append.is_null()) {
    out.set_append_eos(read_bool(append, "append_eos"));
    if (!out.has_target())
      throw invalid_request("append_eos", "says something about a target only");
  }
  set_pooling(prompt, out);
  check_prompt(out);
  return out;
}

}  // namespace tandem
