// Embeddings that config.json ties, but that a checkpoint stores with different values.
#pragma once

#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/config/config.h"

namespace tandem {

// A line for the log for each such table: as in HuggingFace, it counts as it is stored.
std::vector<std::string> untied_warnings(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace tandem
