// What a checkpoint is for, as far as its files tell.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/config/config.h"

namespace tandem {

struct ModelUses {
  // HuggingFace's names of pipelines ("summarization", "translation"), the likeliest first: those
  // of the model card (README.md: pipeline_tag, tags), of task_specific_params, of the tokenizer's
  // languages. Empty: the files do not tell.
  std::vector<std::string> pipelines;
  // Of a tokenizer for one pair of languages, by its names ("en", "de"). Empty: there is none.
  std::pair<std::string, std::string> language_pair;
};

// Reads README.md and tokenizer_config.json beside config.json, if they are there and readable.
ModelUses model_uses(const ModelConfig& config);

}  // namespace tandem
