// Names of HuggingFace's and vLLM's parameters that a request may carry though nothing is built for
// them: with the value that switches them off, or because they change no output.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace tandem {

// Those that are asked for: name → the value, for messages.
using UnbuiltOptions = std::map<std::string, std::string>;

// What is said of such a name.
enum class Unbuilt { kUnknownName, kOff, kAskedFor };
Unbuilt unbuilt_state(const std::string& name, const nlohmann::json& value);
// Names that may be given and change nothing.
bool is_without_effect(const std::string& name);
std::vector<std::string> unbuilt_names();  // both kinds

// kNotSupported. by_model: by the model's defaults, which the request does not switch off.
InputError not_built(const std::string& name, const std::string& value, bool by_model);

}  // namespace tandem
