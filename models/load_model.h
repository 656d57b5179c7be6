// Checkpoint → Model: builds it, and checks that nothing in the files was left unread.
#pragma once

#include <functional>
#include <memory>

#include "models/checkpoint/checkpoint.h"
#include "models/model.h"

namespace tandem {

// Called while tensors are read: `done` of `total` bytes.
using LoadProgress = std::function<void(size_t done, size_t total)>;

// Throws InputError: unknown architecture; a tensor that is missing, wrongly shaped or never read.
std::unique_ptr<Model> load_model(const ModelConfig& config, Checkpoint& checkpoint,
                                  const Build& build, const LoadProgress& progress = {});

}  // namespace tandem
