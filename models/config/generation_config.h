// The generation settings of a checkpoint directory, as HuggingFace's from_pretrained() finds them.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

namespace tandem {

// generation_config.json if it is there, else config.json.
std::filesystem::path find_generation_config(const std::filesystem::path& directory);

// The settings of that file. Of generation_config.json everything but its nulls and its remarks
// about its origin. Of config.json (`config`) the keys that are generation settings; what only the
// family's defaults would say (such as BART's forced_eos_token_id) is not added, as in HuggingFace.
nlohmann::json load_generation_config(const std::filesystem::path& file,
                                      const nlohmann::json& config);

}  // namespace tandem
