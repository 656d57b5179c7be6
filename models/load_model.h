// Checkpoint → Model: builds it, and tells what in the files was left unread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/model.h"

namespace tandem {

// Called while tensors are read: `done` of `total` bytes.
using LoadProgress = std::function<void(size_t done, size_t total)>;

// Throws InputError: a model of no family; a tensor that is missing or wrongly shaped. Tensors are
// found with and without the name of the model in front (ModelFamily::base), as in HuggingFace.
std::unique_ptr<Model> load_model(const ModelConfig& config, Checkpoint& checkpoint,
                                  const Build& build, const LoadProgress& progress = {});

// Of a checkpoint whose model is loaded: what the log should say of it, a line each. One names the
// first tensors that no layer has read, which HuggingFace ignores too, and counts them.
std::vector<std::string> load_warnings(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace tandem
