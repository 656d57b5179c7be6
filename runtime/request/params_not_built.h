// Names of HuggingFace's and vLLM's parameters that a request may carry though nothing is built for
// them: with the value that switches them off, or because they change no output.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/request/params_schema.h"

namespace tandem {

// Notes the value of such a name in `out` (not_built, switched_off). False: it is none.
bool read_not_built(const std::string& name, const nlohmann::json& value, GenerationOptions& out);
// Names that may be given and change nothing.
bool is_without_effect(const std::string& name);
std::vector<std::string> names_not_built();  // both kinds
// Throws InputError (kNotSupported) for what is switched on, by the request or by the model and not
// off by the request.
void check_built(const GenerationOptions& request, const GenerationOptions& model);

}  // namespace tandem
