// The tasks of a checkpoint: task_specific_params of config.json.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "models/config/config.h"

namespace tandem {

struct TaskParams {
  std::string prefix;         // stands before texts
  nlohmann::json generation;  // an object: generation settings, and what is none
};

// By name ("summarization", "translation_en_to_de"); entries that are no objects are left out.
std::map<std::string, TaskParams> task_params(const ModelConfig& config);

}  // namespace tandem
