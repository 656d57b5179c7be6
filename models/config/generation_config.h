// The generation settings of a checkpoint directory, as HuggingFace's from_pretrained() finds them.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace tandem {

// generation_config.json if it is there, else config.json.
std::filesystem::path find_generation_config(const std::filesystem::path& directory);

// The settings of that file. From generation_config.json: everything except nulls and remarks about
// its origin. From config.json (`config`): the generation settings. As in HuggingFace, defaults of
// the family (such as BART's forced_eos_token_id) are not added.
nlohmann::json load_generation_config(const std::filesystem::path& file,
                                      const nlohmann::json& config);

// The generation settings of a model's configuration, an object as config.json is.
nlohmann::json generation_of_config(const nlohmann::json& config);

}  // namespace tandem
