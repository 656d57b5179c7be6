// architecture → factory, an explicit table (no static initialisers).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/model.h"

namespace tandem {

using ModelFactory = std::unique_ptr<Model> (*)(const ModelConfig&, Weights, const Build&);

bool is_supported(const std::string& architecture);
// Throws InputError naming the architecture and those that exist.
ModelFactory find_model(const ModelConfig& config);
std::vector<std::string> architectures();
// For models outside this repository: call before find_model(), not thread-safe.
void register_model(const std::string& architecture, ModelFactory factory);

}  // namespace tandem
