// Fields of requests for text that OpenAI and vLLM know, and that say nothing to this kind of
// model.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem::server {

// Takes them out of the body. Those without effect on the answer go without a word; of those that
// are hints for another kind of model the log says once, as long as the server runs, that they are
// ignored; a value that asks for another answer throws InputError naming the field.
void take_foreign_fields(nlohmann::json& body);

// For documents and tests: the names, by what is done with them.
std::vector<std::string> accepted_fields();
std::vector<std::string> ignored_fields();
std::vector<std::string> refused_fields();

}  // namespace tandem::server
