// Fields of OpenAI's and vLLM's requests that mean nothing to this kind of model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem::server {

// Takes them out of the body:
// - Fields without effect on the answer are dropped silently.
// - Hints for another kind of model are ignored; the log says so once in a server's life.
// - A value that asks for another answer throws InputError naming the field.
void take_foreign_fields(nlohmann::json& body);

// For documents and tests: the names, grouped by treatment.
std::vector<std::string> accepted_fields();
std::vector<std::string> ignored_fields();
std::vector<std::string> refused_fields();

}  // namespace tandem::server
