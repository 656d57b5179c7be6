#include "launcher/speculation_options.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "runtime/protocol/json/json_line.h"

namespace tandem::launcher {
namespace {

constexpr const char* kFlag = "--speculative-config";

int read_int(const std::string& key, const nlohmann::json& value) {
  if (!value.is_number_integer() || value < -(1 << 30) || value > 1 << 30)
    throw invalid_request(kFlag, key + ": " + json_text(value) + " is not a small integer");
  return value.get<int>();
}

}  // namespace

void read_speculation(const std::string& text, proto::DraftingConfig& config) {
  nlohmann::json json;
  try {
    json = parse_json_line(text);
  } catch (const InputError& error) {
    throw invalid_request(kFlag, error.what());
  }
  if (!json.is_object()) throw invalid_request(kFlag, "must be a JSON object");
  for (const auto& [key, value] : json.items()) {
    if (key == "num_speculative_tokens") {
      config.set_num_speculative_tokens(read_int(key, value));
    } else if (key == "prompt_lookup_min") {
      config.set_prompt_lookup_min(read_int(key, value));
    } else if (key == "prompt_lookup_max") {
      config.set_prompt_lookup_max(read_int(key, value));
    } else if (key == "disable_by_batch_size") {
      config.set_disable_by_batch_size(read_int(key, value));
    } else if (key == "model") {
      if (!value.is_string() || value.get<std::string>().empty())
        throw invalid_request(kFlag, key + ": " + json_text(value) + " is not a model's name");
      config.set_draft_model(value.get<std::string>());
    } else if (key == "dtype") {
      if (!value.is_string())
        throw invalid_request(kFlag, key + ": " + json_text(value) + " is not a type's name");
      config.set_draft_dtype(value.get<std::string>());
    } else if (key == "draft_cost") {
      if (!value.is_number())
        throw invalid_request(kFlag, key + ": " + json_text(value) + " is not a number");
      config.set_draft_cost(value.get<double>());
    } else if (key == "method") {
      if (value != "ngram" && value != "draft_model")
        throw not_supported(kFlag, "method " + json_text(value) +
                                       "; drafts are looked up (\"ngram\"), or come from a model "
                                       "besides (\"draft_model\")");
    } else {
      throw invalid_request(kFlag,
                            "\"" + key +
                                "\" is not known; there are method, model, "
                                "num_speculative_tokens, prompt_lookup_min, "
                                "prompt_lookup_max, disable_by_batch_size, draft_cost and dtype");
    }
  }
  const std::string method = json.value("method", json.contains("model") ? "draft_model" : "ngram");
  if ((method == "draft_model") != json.contains("model"))
    throw invalid_request(
        kFlag, method == "ngram" ? "model: method \"ngram\" has none" : "model is missing");
  if (!json.contains("num_speculative_tokens"))
    throw invalid_request(kFlag, "num_speculative_tokens is missing");
}

}  // namespace tandem::launcher
