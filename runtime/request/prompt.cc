// What becomes of a request's prompt (prompt.h): tokenisation and truncation, and the table of
// families that make decoder prompts.
#include "runtime/request/prompt.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings/utf8.h"
#include "models/config/decoder_prompt.h"
#include "runtime/protocol/encoder_input.h"
#include "runtime/protocol/pooling_kind.h"
#include "runtime/request/global_attention.h"
#include "runtime/request/heads/head_inputs.h"
#include "runtime/request/image_text.h"
#include "runtime/request/params/language_rules.h"
#include "runtime/request/request_error.h"
#include "text/unicode/unicode_classes.h"

namespace tandem {

namespace {

using Ids = std::vector<int32_t>;

// --- token ids ---------------------------------------------------------------------------------

void check_prompt_ids(const Ids& ids, const std::string& field, int vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab_size)
      throw invalid_request(field, "token id " + std::to_string(ids[i]) + " at position " +
                                       std::to_string(i) + " is outside the vocabulary of " +
                                       std::to_string(vocab_size));
}

// What stands around a text, and before it.
struct TextOptions {
  bool add_special = true;
  const std::string* language = nullptr;  // null: the tokenizer's own
  std::string_view prefix = {};
  PairCut cut = {};  // of a pair
};

// A pair is cut here: what joins the texts stays.
Ids tokenise_pair(const proto::PromptPart& part, const Tokenizer& tokenizer,
                  const TextOptions& with, const std::string& first) {
  if (with.language != nullptr)
    throw invalid_request("src_lang", "is for one text; a pair has the tokenizer's language");
  const proto::SecondText& second = part.second();
  check_utf8(second.text(), part.field());
  PairCut cut = with.cut;
  cut.empty_is_none = true;
  return tokenizer.encode_pair(first, second.text(), with.add_special, cut);
}

Ids tokenise(const proto::PromptPart& part, const Tokenizer* tokenizer, const TextOptions& with) {
  if (!part.has_text()) {
    const auto& ids = part.token_ids().ids();
    return {ids.begin(), ids.end()};
  }
  if (!tokenizer)
    throw invalid_request(part.field(),
                          "the model has no tokenizer; give prompt_token_ids instead of text");
  check_utf8(part.text(), part.field());
  std::string prefixed;
  if (!with.prefix.empty()) prefixed = std::string(with.prefix) + part.text();
  const std::string& text = with.prefix.empty() ? part.text() : prefixed;
  if (part.has_second()) return tokenise_pair(part, *tokenizer, with, text);
  return with.language != nullptr ? tokenizer->encode_from(*with.language, text, with.add_special)
                                  : tokenizer->encode(text, with.add_special);
}

// Of texts of the output: in the target's language where that has a token around them.
TextOptions output_text(const proto::GenerationOptions& options, const Tokenizer* tokenizer,
                        const PromptParams& with) {
  using Target = LanguageSet::Rule::Target;
  TextOptions out{with.add_special_tokens};
  if (!options.has_tgt_lang() || tokenizer == nullptr) return out;
  const LanguageSet& languages = tokenizer->languages();
  if (languages.target() != Target::kSourcePrefix && languages.has_source())
    out.language = &options.tgt_lang();
  return out;
}

// Of a decoder that is prompted with the target's language.
std::optional<Ids> language_prompt(const proto::GenerationOptions& options,
                                   const Tokenizer* tokenizer) {
  using Target = LanguageSet::Rule::Target;
  if (!options.has_tgt_lang() || tokenizer == nullptr ||
      tokenizer->languages().target() != Target::kDecoderPrompt)
    return std::nullopt;
  return Ids{tokenizer->languages().id_of(options.tgt_lang(), "tgt_lang")};
}

// Cuts the tail to `keep` tokens; the end tokens stay, if the ids end with them.
void truncate(Ids& ids, size_t keep, const Tokenizer* tokenizer) {
  if (ids.size() <= keep) return;
  size_t end_tokens =
      tokenizer ? static_cast<size_t>(std::max(tokenizer->num_suffix_tokens(), 0)) : 0;
  end_tokens = std::min(end_tokens, keep);
  if (!std::all_of(ids.end() - static_cast<long>(end_tokens), ids.end(),
                   [&](int32_t id) { return tokenizer->is_special(id); }))
    end_tokens = 0;
  ids.erase(ids.begin() + static_cast<long>(keep - end_tokens),
            ids.end() - static_cast<long>(end_tokens));
}

void check_encoder(const Ids& ids, const std::string& field, int positions) {
  if (ids.empty()) throw invalid_request(field, "has no tokens");
  if (positions > 0 && ids.size() > static_cast<size_t>(positions))
    throw ContextLengthError(
        field, positions, std::ssize(ids),
        "; split: auto (--split auto) computes a text in parts, truncate_prompt_tokens: -1 "
        "(--truncate-prompt-tokens -1) cuts its end off.");
}

bool is_blank(const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = code_point_at(text, at);
    if (!is_space(c.value)) return false;
    at += static_cast<size_t>(c.length);
  }
  return true;
}

// From an empty text a model invents a sentence. Not so where the request begins the output itself,
// has other data, or generates nothing.
void check_not_empty(const proto::Prompt& prompt, const PromptParams& params) {
  const proto::PromptPart& encoder = prompt.encoder();
  if (!encoder.has_text() || !is_blank(encoder.text()) || params.allow_empty_prompt) return;
  if (prompt.has_decoder() || prompt.has_target() || prompt.has_pooling()) return;
  throw invalid_request(
      encoder.field(),
      std::string(encoder.text().empty() ? "is empty" : "has nothing but white space") +
          ": the model would invent a text; allow_empty_prompt: true "
          "(--allow-empty-prompt) lets it");
}

// Decoder ids → those that the decoder is fed: the target follows, but for its last token.
void add_target(const proto::Prompt& prompt, const proto::GenerationOptions& options,
                const Tokenizer* tokenizer, const PromptParams& with,
                const ParamsResolver& resolver, Ids& decoder, PreparedPrompt& out) {
  const proto::PromptPart& part = prompt.target();
  const TextOptions text = output_text(options, tokenizer, with);
  Ids target = tokenise(part, tokenizer, text);
  check_prompt_ids(target, part.field(), resolver.vocab_size());
  // A language behind the text is the one that the decoder starts with.
  if (part.has_text() && text.language != nullptr && !target.empty() && !decoder.empty() &&
      target.back() == decoder.front() && tokenizer->languages().is_language(target.back()))
    target.pop_back();
  const Ids ends = resolver.end_tokens(options);
  const bool ended = !target.empty() && std::count(ends.begin(), ends.end(), target.back()) > 0;
  if (prompt.append_eos() && !ended) {
    if (ends.empty())
      throw invalid_request("append_eos", "the model has no end token; set append_eos to false");
    target.push_back(ends[0]);
  } else if (!prompt.append_eos() && ended && part.has_text() && with.add_special_tokens) {
    target.pop_back();  // the tokenizer put it there
  }
  if (target.empty()) throw invalid_request(part.field(), "has no tokens");
  const auto positions = static_cast<size_t>(resolver.decoder_positions());
  if (positions > 0 && decoder.size() + target.size() > positions + 1)
    throw ContextLengthError(
        part.field(), static_cast<int64_t>(positions), std::ssize(decoder) + std::ssize(target) - 1,
        ": behind " + std::to_string(decoder.size()) + " tokens of the decoder there is room for " +
            std::to_string(positions + 1 - std::min(decoder.size(), positions)) + ".");
  if (part.has_text()) out.inputs.set_target(part.text());
  out.inputs.set_target_start(static_cast<int32_t>(decoder.size()));
  out.last_target_token = target.back();
  decoder.insert(decoder.end(), target.begin(), target.end() - 1);
}

template <class Repeated>
void assign(const Ids& ids, Repeated* out) {
  out->Assign(ids.begin(), ids.end());
}

// Before anything is cut off.
Ids source_ids(const proto::PromptPart& part, const proto::GenerationOptions& options,
               const PromptParams& with, const Tokenizer* tokenizer, const PairCut& cut = {}) {
  Ids ids = tokenise(part, tokenizer,
                     {with.add_special_tokens,
                      options.has_src_lang() ? &options.src_lang() : nullptr, with.prefix, cut});
  if (tokenizer != nullptr) add_source_prefix(options, tokenizer->languages(), ids);
  return ids;
}

// How a pair is cut: to what the request says; where only the first text may be, to what the
// tokenizer or the model takes.
PairCut cut_of(const proto::PromptPart& part, const PromptParams& with, const Tokenizer* tokenizer,
               const ParamsResolver& resolver) {
  PairCut out{{}, part.second().cut_first()};
  if (with.truncate_prompt_tokens) {
    out.most = static_cast<size_t>(*with.truncate_prompt_tokens);
  } else if (out.only_first) {
    const int named = tokenizer != nullptr ? tokenizer->model_max_length() : 0;
    const int positions = resolver.encoder_positions();
    const int most = named > 0 && positions > 0 ? std::min(named, positions) : named + positions;
    if (most > 0) out.most = static_cast<size_t>(most);
  }
  return out;
}

// Text or ids → the ids that the encoder reads.
Ids encoder_ids(const proto::Prompt& prompt, const proto::GenerationOptions& options,
                const PromptParams& with, const Tokenizer* tokenizer,
                const ParamsResolver& resolver) {
  const std::string& field = prompt.encoder().field();
  const proto::PromptPart& part = prompt.encoder();
  if (part.has_frames() || part.has_image() || part.has_picture() || part.has_sound())
    throw invalid_request(
        field.empty() ? "prompt.encoder" : field,
        std::string("must be a text or token ids: the model's encoder reads no ") +
            (part.has_image() || part.has_picture() ? "images"
             : part.has_sound()                     ? "sound"
                                                    : "frames"));
  if (part.boxes_size() > 0)
    throw invalid_request("bbox", "must not be given: the model knows no places of tokens");
  Ids ids = source_ids(prompt.encoder(), options, with, tokenizer,
                       cut_of(prompt.encoder(), with, tokenizer, resolver));
  check_not_empty(prompt, with);
  check_prompt_ids(ids, field, resolver.encoder_vocab_size());
  if (with.truncate_prompt_tokens && !prompt.encoder().has_second())
    truncate(ids, static_cast<size_t>(*with.truncate_prompt_tokens), tokenizer);
  check_encoder(ids, field, resolver.encoder_positions());
  return ids;
}

// The same of an encoder that reads images too, whose frames go into `out`.
Ids ids_beside_image(const proto::Prompt& prompt, const proto::GenerationOptions& options,
                     PromptParams with, const Tokenizer* tokenizer, const ModelConfig& config,
                     const ParamsResolver& resolver, const ImageProcessor* images,
                     PreparedPrompt& out) {
  const proto::PromptPart& part = prompt.encoder();
  const FrameLimits& limits = *resolver.frames();
  if (part.has_frames() || part.has_sound())
    return encoder_ids(prompt, options, with, tokenizer, resolver);
  proto::Prompt words;
  Words beside = words_beside_image(part, config, tokenizer, *limits.beside_ids);
  *words.mutable_encoder() = std::move(beside.part);
  with.add_special_tokens = with.add_special_tokens && beside.add_special;
  with.allow_empty_prompt = with.allow_empty_prompt || part.has_image() || part.has_picture() ||
                            prompt.has_decoder() || prompt.has_target() || prompt.has_pooling();
  Ids ids = encoder_ids(words, options, with, tokenizer, resolver);
  if (auto frames = frames_beside_ids(part, ids, limits, resolver.encoder_positions(), images))
    *out.inputs.mutable_encoder_frames() = std::move(*frames);
  return ids;
}

// As the request has them, or of its image.
proto::EncoderFrames given_frames(const proto::PromptPart& part, const std::string& field,
                                  const FrameLimits& limits, const ImageProcessor* images) {
  if (part.has_frames()) return part.frames();
  const std::string no = ": the model's encoder reads no ";
  if (part.has_picture())
    throw not_supported(field,
                        "has a text beside the image, which the model would not read; what "
                        "the answer begins with is decoder_prompt");
  if (!limits.reads_images())
    throw invalid_request(field, "must be sound" + no +
                                     (part.has_image() ? "images" : "text or token ids") +
                                     " (tandem transcribe, /v1/audio/transcriptions)");
  if (!part.has_image())
    throw invalid_request(
        field, "must be an image, \"multi_modal_data\": {\"image\": …}" + no + "text or token ids");
  if (images == nullptr)
    throw not_supported(field,
                        "the model's directory has no preprocessor_config.json, which says "
                        "how images are read");
  return images->frames(part.image(), field, limits);
}

proto::EncoderFrames frames_of(const proto::PromptPart& part, const PromptParams& with,
                               const FrameLimits& limits, int positions,
                               const ImageProcessor* images) {
  const std::string field = part.field().empty() ? "prompt.encoder" : part.field();
  if (with.truncate_prompt_tokens)
    throw invalid_request("truncate_prompt_tokens",
                          "cuts tokens; the model's encoder reads frames");
  proto::EncoderFrames frames = given_frames(part, field, limits, images);
  if (frames.width() != limits.width)
    throw invalid_request(field + ".width", "is " + std::to_string(frames.width()) +
                                                ", the model's frames have " +
                                                std::to_string(limits.width) + " numbers");
  if (limits.image && frames.num_frames() != limits.image->count())
    throw invalid_request(field + ".num_frames", "is " + std::to_string(frames.num_frames()) +
                                                     ", the model's images have " +
                                                     std::to_string(limits.image->count()) +
                                                     " patches");
  const int64_t length = limits.length_of(frames.num_frames());
  if (length < 1)
    throw invalid_request(field + ".num_frames", "is " + std::to_string(frames.num_frames()) +
                                                     ", too few for the model's encoder");
  const std::string made = "the model makes " + std::to_string(length) + " positions of " +
                           std::to_string(frames.num_frames()) + " frames";
  if (positions > 0 && length > positions)
    throw InputError(ErrorKind::kResource,
                     field + ": " + made + ", and has " + std::to_string(positions), field);
  if (frames.length() != 0 && frames.length() != length)
    throw invalid_request(field + ".length",
                          "is " + std::to_string(frames.length()) + ", but " + made);
  frames.set_length(static_cast<int32_t>(length));
  return frames;
}

}  // namespace

size_t num_encoder_tokens(const proto::PromptPart& text, const proto::GenerationOptions& options,
                          const Tokenizer& tokenizer, const ParamsResolver& resolver) {
  return source_ids(text, options, resolver.prompt_params(options), &tokenizer).size();
}

PreparedPrompt preprocess(const proto::Prompt& prompt, const proto::GenerationOptions& options,
                          const Tokenizer* tokenizer, const ModelConfig& config,
                          const ParamsResolver& resolver, const ImageProcessor* images) {
  const PromptParams with = resolver.prompt_params(options);
  if (options.has_src_lang() && !prompt.encoder().has_text())
    throw invalid_request("src_lang",
                          "is for texts: token ids have their language's token already");
  PreparedPrompt out;
  if (!resolver.limits().reads_ids()) {
    *out.inputs.mutable_encoder_frames() =
        frames_of(prompt.encoder(), with, *resolver.frames(), resolver.encoder_positions(), images);
  } else {
    const Ids encoder =
        resolver.frames() != nullptr
            ? ids_beside_image(prompt, options, with, tokenizer, config, resolver, images, out)
            : encoder_ids(prompt, options, with, tokenizer, resolver);
    if (prompt.encoder().has_text()) out.inputs.set_encoder_prompt(prompt.encoder().text());
    if (prompt.encoder().has_second()) out.inputs.set_second_text(prompt.encoder().second().text());
    assign(encoder, out.inputs.mutable_encoder_prompt_token_ids());
  }
  assign(global_positions(prompt, options, resolver.limits(), encoder_length(out.inputs)),
         out.inputs.mutable_global_attention());
  if (prompt.has_pooling()) {
    out.pooling = prompt.pooling();
    if (aligns(prompt.pooling())) {
      const auto& ids = prompt.decoder().token_ids().ids();
      *out.inputs.mutable_prompt_token_ids() = ids;
      check_prompt_ids({ids.begin(), ids.end()}, prompt.decoder().field(), resolver.vocab_size());
      check_alignment(prompt, config, resolver, out.inputs);
    } else if (reads_decoder(prompt.pooling())) {
      add_head_inputs(prompt, options, config, resolver, out);
    }
    return out;
  }

  std::optional<Ids> given;
  if (prompt.has_decoder()) {
    given = tokenise(prompt.decoder(), tokenizer, output_text(options, tokenizer, with));
    check_prompt_ids(*given, prompt.decoder().field(), resolver.vocab_size());
  }
  if (prompt.has_target() && !given) given = Ids();  // the target brings its own BOS
  if (!given) given = language_prompt(options, tokenizer);
  const DecoderPromptContext context{config, resolver.decoder_start(options),
                                     resolver.default_bos(options)};
  DecoderPrompt decoder = decoder_prompt_rule(config)(given, context);
  check_prompt_ids(decoder.ids, "decoder_start_token_id", resolver.vocab_size());

  if (prompt.has_target()) add_target(prompt, options, tokenizer, with, resolver, decoder.ids, out);
  out.lengths = {static_cast<int>(decoder.ids.size()), decoder.default_bos};
  if (prompt.decoder().has_text()) out.inputs.set_prompt(prompt.decoder().text());
  assign(decoder.ids, out.inputs.mutable_prompt_token_ids());
  return out;
}

}  // namespace tandem
