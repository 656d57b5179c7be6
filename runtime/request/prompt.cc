// Prompts of a request (prompt.h): the formats, tokenisation and truncation, and the table of
// families that make decoder prompts.
#include "runtime/request/prompt.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json_fields.h"
#include "base/utf8.h"
#include "models/config/decoder_prompt.h"
#include "text/pipeline/unicode_classes.h"

namespace tandem {

using nlohmann::json;

namespace {

using Ids = std::vector<int32_t>;
constexpr const char* kFormats =
    "a string, a list of token ids, {\"prompt\": ...}, {\"prompt_token_ids\": [...]} or "
    "{\"encoder_prompt\": ..., \"decoder_prompt\": ...}";

// --- parsing -----------------------------------------------------------------------------------

void check_keys(const json& object, const std::string& field,
                const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw invalid_request(field, "unknown key " + describe(json(key)) + suggestion(key, known));
}

// Absent, null and {} are no data.
void refuse_data(const json& object, const std::string& field, const char* key) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null() || (it->is_object() && it->empty())) return;
  throw not_supported(field + "." + key, "not built yet");
}

PromptPart parse_ids(const json& value, const std::string& field) {
  // The vocabulary is checked when the model is known, in preprocess().
  Ids ids = read_token_ids(value, field, std::numeric_limits<int32_t>::max());
  if (ids.empty()) throw invalid_request(field, "must not be empty");
  return {std::move(ids), field};
}

PromptPart parse_single(const json& value, const std::string& field) {
  if (value.is_string()) return {value.get<std::string>(), field};
  if (value.is_array()) return parse_ids(value, field);
  if (!value.is_object())
    throw invalid_request(field, std::string("must be ") + kFormats + ", not " + describe(value));
  check_keys(
      value, field,
      {"prompt", "prompt_token_ids", "prompt_tokens", "multi_modal_data", "mm_processor_kwargs"});
  refuse_data(value, field, "multi_modal_data");
  refuse_data(value, field, "mm_processor_kwargs");
  std::string found;
  for (const char* key : {"prompt", "prompt_token_ids", "prompt_tokens"}) {
    if (!value.contains(key)) continue;
    if (!found.empty()) throw invalid_request(field, "has both " + found + " and " + key);
    found = key;
  }
  if (found.empty()) throw invalid_request(field, "has neither prompt nor prompt_token_ids");
  const std::string inner = field + "." + found;
  if (found == "prompt") return {read_string(value[found], inner), inner};
  return parse_ids(value[found], inner);
}

void parse_pooling(const json& prompt, Prompt& out) {
  const auto value_of = [&](const char* key) {
    const auto it = prompt.find(key);
    return it == prompt.end() ? json() : *it;
  };
  const json kind = value_of("pooling"), normalize = value_of("normalize");
  if (kind.is_null()) {
    if (!normalize.is_null()) throw invalid_request("normalize", "needs \"pooling\"");
    return;
  }
  if (out.decoder || out.target)
    throw invalid_request("pooling",
                          "is of the encoder's output; leave out decoder_prompt and target");
  static const std::map<std::string, proto::Pooling::Kind> kinds = {
      {"mean", proto::Pooling::MEAN}, {"cls", proto::Pooling::CLS}, {"last", proto::Pooling::LAST}};
  const auto it = kind.is_string() ? kinds.find(kind.get<std::string>()) : kinds.end();
  if (it == kinds.end())
    throw invalid_request("pooling", describe(kind) + " is not one of mean, cls, last");
  out.pooling.emplace().set_kind(it->second);
  out.pooling->set_normalize(normalize.is_null() || read_bool(normalize, "normalize"));
}

// --- token ids ---------------------------------------------------------------------------------

void check_ids(const Ids& ids, const std::string& field, int vocab_size) {
  for (size_t i = 0; i < ids.size(); ++i)
    if (ids[i] < 0 || ids[i] >= vocab_size)
      throw invalid_request(field, "token id " + std::to_string(ids[i]) + " at position " +
                                       std::to_string(i) + " is outside the vocabulary of " +
                                       std::to_string(vocab_size));
}

Ids tokenise(const PromptPart& part, const Tokenizer* tokenizer, bool add_special) {
  if (const auto* ids = std::get_if<Ids>(&part.content)) return *ids;
  if (!tokenizer)
    throw invalid_request(part.field,
                          "the model has no tokenizer; give prompt_token_ids instead of text");
  const std::string& text = std::get<std::string>(part.content);
  check_utf8(text, part.field);
  return tokenizer->encode(text, add_special);
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
    throw InputError(ErrorKind::kResource,
                     field + ": has " + std::to_string(ids.size()) + " tokens, the model has " +
                         std::to_string(positions) +
                         " positions; truncate_prompt_tokens: -1 (--truncate-prompt-tokens -1) "
                         "cuts its end off",
                     field);
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
void check_not_empty(const Prompt& prompt, const PromptParams& params) {
  const auto* text = std::get_if<std::string>(&prompt.encoder.content);
  if (text == nullptr || !is_blank(*text) || params.allow_empty_prompt) return;
  if (prompt.decoder || prompt.target || prompt.pooling) return;
  throw invalid_request(prompt.encoder.field,
                        std::string(text->empty() ? "is empty" : "has nothing but white space") +
                            ": the model would invent a text; allow_empty_prompt: true "
                            "(--allow-empty-prompt) lets it");
}

// Decoder ids → those that the decoder is fed: the target follows, but for its last token.
void add_target(const Prompt& prompt, const json& params, const Tokenizer* tokenizer,
                bool add_special, const ParamsResolver& resolver, Ids& decoder,
                PreparedPrompt& out) {
  const PromptPart& part = *prompt.target;
  const auto* text = std::get_if<std::string>(&part.content);
  Ids target = tokenise(part, tokenizer, add_special);
  check_ids(target, part.field, resolver.vocab_size());
  const Ids ends = resolver.end_tokens(params);
  const bool ended = !target.empty() && std::count(ends.begin(), ends.end(), target.back()) > 0;
  if (prompt.append_eos && !ended) {
    if (ends.empty())
      throw invalid_request("append_eos", "the model has no end token; set append_eos to false");
    target.push_back(ends[0]);
  } else if (!prompt.append_eos && ended && text != nullptr && add_special) {
    target.pop_back();  // the tokenizer put it there
  }
  if (target.empty()) throw invalid_request(part.field, "has no tokens");
  const auto positions = static_cast<size_t>(resolver.decoder_positions());
  if (positions > 0 && decoder.size() + target.size() > positions + 1)
    throw InputError(ErrorKind::kResource,
                     part.field + ": has " + std::to_string(target.size()) + " tokens; behind " +
                         std::to_string(decoder.size()) + " the model's " +
                         std::to_string(positions) + " positions allow at most " +
                         std::to_string(positions + 1 - std::min(decoder.size(), positions)),
                     part.field);
  if (text != nullptr) out.inputs.set_target(*text);
  out.inputs.set_target_start(static_cast<int32_t>(decoder.size()));
  out.last_target_token = target.back();
  decoder.insert(decoder.end(), target.begin(), target.end() - 1);
}

template <class Repeated>
void assign(const Ids& ids, Repeated* out) {
  out->Assign(ids.begin(), ids.end());
}

}  // namespace

Prompt parse_prompt(const json& prompt) {
  const auto has = [&](const char* key) { return prompt.is_object() && prompt.contains(key); };
  const bool is_pair = has("encoder_prompt") || has("decoder_prompt") || has("target") ||
                       has("append_eos") || has("pooling") || has("normalize");
  if (!is_pair) return {.encoder = parse_single(prompt, "prompt")};
  check_keys(prompt, "prompt",
             {"encoder_prompt", "decoder_prompt", "target", "append_eos", "pooling", "normalize"});
  if (!prompt.contains("encoder_prompt"))
    throw invalid_request("prompt.encoder_prompt",
                          "is missing: only the decoder's prompt may be left out");
  Prompt out{.encoder = parse_single(prompt["encoder_prompt"], "prompt.encoder_prompt")};
  if (prompt.contains("decoder_prompt") && !prompt["decoder_prompt"].is_null())
    out.decoder = parse_single(prompt["decoder_prompt"], "prompt.decoder_prompt");
  if (has("target") && !prompt["target"].is_null())
    out.target = parse_single(prompt["target"], "target");
  if (has("append_eos") && !prompt["append_eos"].is_null()) {
    out.append_eos = read_bool(prompt["append_eos"], "append_eos");
    if (!out.target) throw invalid_request("append_eos", "says something about a target only");
  }
  parse_pooling(prompt, out);
  return out;
}

PreparedPrompt preprocess(const Prompt& prompt, const json& params, const Tokenizer* tokenizer,
                          const ModelConfig& config, const ParamsResolver& resolver) {
  const PromptParams with = resolver.prompt_params(params);
  Ids encoder = tokenise(prompt.encoder, tokenizer, with.add_special_tokens);
  check_not_empty(prompt, with);
  check_ids(encoder, prompt.encoder.field, resolver.vocab_size());
  if (with.truncate_prompt_tokens)
    truncate(encoder, static_cast<size_t>(*with.truncate_prompt_tokens), tokenizer);
  check_encoder(encoder, prompt.encoder.field, resolver.encoder_positions());

  PreparedPrompt out;
  if (const auto* text = std::get_if<std::string>(&prompt.encoder.content))
    out.inputs.set_encoder_prompt(*text);
  assign(encoder, out.inputs.mutable_encoder_prompt_token_ids());
  out.pooling = prompt.pooling;
  if (out.pooling) return out;

  std::optional<Ids> given;
  if (prompt.decoder) {
    given = tokenise(*prompt.decoder, tokenizer, with.add_special_tokens);
    check_ids(*given, prompt.decoder->field, resolver.vocab_size());
  }
  if (prompt.target && !given) given = Ids();  // the target brings its own BOS
  const DecoderPromptContext context{config, resolver.decoder_start(params),
                                     resolver.default_bos(params)};
  DecoderPrompt decoder = decoder_prompt_rule(config)(given, context);
  check_ids(decoder.ids, "decoder_start_token_id", resolver.vocab_size());

  if (prompt.target)
    add_target(prompt, params, tokenizer, with.add_special_tokens, resolver, decoder.ids, out);
  out.lengths = {static_cast<int>(decoder.ids.size()), decoder.default_bos};
  if (prompt.decoder)
    if (const auto* text = std::get_if<std::string>(&prompt.decoder->content))
      out.inputs.set_prompt(*text);
  assign(decoder.ids, out.inputs.mutable_prompt_token_ids());
  return out;
}

}  // namespace tandem
