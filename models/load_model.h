// Checkpoint → Model: builds it, and reports unread tensors.
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

// Throws InputError if the model has no family, or a tensor is missing or has a wrong shape. As in
// HuggingFace, tensors are found with and without the model's prefix (ModelFamily::base).
std::unique_ptr<Model> load_model(const ModelConfig& config, Checkpoint& checkpoint,
                                  const Build& build, const LoadProgress& progress = {});

// Warnings for the log about a checkpoint whose model is loaded, a line each. One counts the
// tensors that no layer has read and names the first of them; HuggingFace ignores them too.
std::vector<std::string> load_warnings(const ModelConfig& config, const Checkpoint& checkpoint);

}  // namespace tandem
