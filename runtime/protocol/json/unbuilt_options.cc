// The names, and their errors (unbuilt_options.h).
#include "runtime/protocol/json/unbuilt_options.h"

#include <algorithm>
#include <initializer_list>
#include <map>

#include "base/json.h"

namespace tandem {

using nlohmann::json;

namespace {

using Names = std::map<std::string, json, std::less<>>;

// With the values (besides null) that leave them off.
const Names& off_values() {
  static const Names names = [] {
    Names all;
    const auto add = [&all](const char* off, std::initializer_list<const char*> these) {
      for (const char* name : these) all[name] = json_from<json>(off);
    };
    add("[]", {"constraints", "force_words_ids", "watermarking_config", "dola_layers",
               "assistant_early_exit", "assistant_model", "speculation_type", "custom_generate",
               "negative_prompt_ids", "prefix_allowed_tokens_fn", "stopping_criteria",
               "thinking_token_budget", "repetition_detection", "output_kind"});
    add("[1]", {"num_beam_groups", "guidance_scale"});
    add("[0]", {"diversity_penalty", "penalty_alpha"});
    add("[false]", {"token_healing", "use_mtp", "use_beam_search", "flat_logprobs", "output_scores",
                    "output_logits", "output_attentions", "output_hidden_states"});
    add("[true]", {"detokenize", "spaces_between_special_tokens"});
    add("[[]]", {"logits_processors", "logits_processor", "logprob_token_ids"});
    add("[{}]", {"extra_args"});
    return all;
  }();
  return names;
}

// How HuggingFace computes, not what; and what matters with an assistant only. (Drafts are the
// server's matter, and change no token.)
constexpr const char* kWithoutEffect[] = {"use_cache",
                                          "prompt_lookup_num_tokens",
                                          "return_dict_in_generate",
                                          "cache_implementation",
                                          "cache_config",
                                          "max_cache_len",
                                          "low_memory",
                                          "compile_config",
                                          "disable_compile",
                                          "continuous_batching_config",
                                          "prefill_chunk_size",
                                          "synced_gpus",
                                          "num_assistant_tokens",
                                          "num_assistant_tokens_schedule",
                                          "assistant_confidence_threshold",
                                          "assistant_lookbehind",
                                          "target_lookbehind",
                                          "max_matching_ngram_size"};

// What transformers had once: group and constrained beam search, contrastive search, DoLa.
constexpr const char* kRemoved[] = {"num_beam_groups", "diversity_penalty", "constraints",
                                    "force_words_ids", "penalty_alpha",     "dola_layers"};

template <class List>
bool contains(const List& list, const std::string& name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

}  // namespace

Unbuilt unbuilt_state(const std::string& name, const json& value) {
  const auto it = off_values().find(name);
  if (it == off_values().end()) return Unbuilt::kUnknownName;
  const json& off = it->second;
  const bool is_off = value.is_null() || std::find(off.begin(), off.end(), value) != off.end();
  return is_off ? Unbuilt::kOff : Unbuilt::kAskedFor;
}

bool is_without_effect(const std::string& name) { return contains(kWithoutEffect, name); }

std::vector<std::string> unbuilt_names() {
  std::vector<std::string> names(std::begin(kWithoutEffect), std::end(kWithoutEffect));
  for (const auto& [name, off] : off_values()) names.push_back(name);
  return names;
}

InputError not_built(const std::string& name, const std::string& value, bool by_model) {
  const std::string asked =
      value +
      (by_model ? " asked for by the model's defaults; null switches it off" : " asked for");
  if (contains(kRemoved, name))
    return not_supported(
        name, "not built (" + asked + "): transformers 5.23 does not have it any more either");
  return not_supported(name, "not built yet (" + asked + ")");
}

}  // namespace tandem
