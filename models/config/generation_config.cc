// Which file the generation settings come from, and which keys of config.json are such settings.
#include "models/config/generation_config.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <system_error>

#include "base/error.h"
#include "base/json.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

using nlohmann::json;

// clang-format off
// The attributes of HuggingFace's GenerationConfig that act on a request's tokens; of config.json
// only these are generation settings.
constexpr std::string_view kSettings[] = {
    // length
    "max_length", "max_new_tokens", "min_length", "min_new_tokens", "early_stopping", "max_time",
    "stop_strings",
    // strategy
    "do_sample", "num_beams", "num_beam_groups", "diversity_penalty", "penalty_alpha",
    "dola_layers", "num_return_sequences", "constraints", "force_words_ids",
    // logits
    "temperature", "top_k", "top_p", "min_p", "top_h", "typical_p", "epsilon_cutoff", "eta_cutoff",
    "repetition_penalty", "encoder_repetition_penalty", "length_penalty", "no_repeat_ngram_size",
    "encoder_no_repeat_ngram_size", "bad_words_ids", "renormalize_logits", "forced_bos_token_id",
    "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty",
    "suppress_tokens", "begin_suppress_tokens", "sequence_bias", "token_healing", "guidance_scale",
    "watermarking_config",
    // special tokens
    "bos_token_id", "pad_token_id", "eos_token_id", "decoder_start_token_id",
};
// clang-format on

void add_settings(const json& from, json& to) {
  for (const auto& [key, value] : from.items()) {
    const bool known =
        std::find(std::begin(kSettings), std::end(kSettings), key) != std::end(kSettings);
    if (known && !value.is_null() && !to.contains(key)) to[key] = value;
  }
}

}  // namespace

fs::path find_generation_config(const fs::path& directory) {
  const fs::path file = directory / "generation_config.json";
  std::error_code error;
  // A dangling link counts as there, so that opening it reports it.
  const bool there = fs::symlink_status(file, error).type() != fs::file_type::not_found;
  return there ? file : directory / "config.json";
}

json generation_of_config(const json& config) {
  json out = json::object();
  add_settings(config, out);
  // The name of the setting before transformers 4.
  const auto old = config.find("force_bos_token_to_be_generated");
  if (old != config.end() && *old == true) {
    if (out.contains("bos_token_id"))
      out["forced_bos_token_id"] = out["bos_token_id"];
    else
      out.erase("forced_bos_token_id");
  }
  // Composite models keep them with the decoder; only the first of these counts.
  for (const char* part : {"decoder", "generator", "text_config"}) {
    const auto it = config.find(part);
    if (it == config.end() || !it->is_object() || it->empty()) continue;
    add_settings(*it, out);
    break;
  }
  return out;
}

json load_generation_config(const fs::path& file, const json& config) {
  if (file.filename() == "config.json") return generation_of_config(config);
  const json settings = load_python_json(file);
  if (!settings.is_object()) throw invalid_model(file.string(), "is not a JSON object");
  json out = json::object();
  for (const auto& [key, value] : settings.items())
    if (!value.is_null() && key != "transformers_version" && !key.starts_with('_'))
      out[key] = value;
  return out;
}

}  // namespace tandem
