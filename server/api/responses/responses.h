// OpenAI's Responses: text in, text out, whole or as a stream. Nothing is stored.
#pragma once

#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "server/api/fields/json_body.h"
#include "server/api/generation/answer_format.h"
#include "server/api/generation/generation_request.h"

namespace tandem::server {

struct ResponseRequest {
  GenerationRequest generation;
  // What the answer repeats of the request: instructions, metadata, temperature, …
  Json repeated = Json::object();
};

// Throws InputError naming the field, also for what only a server with a memory, tools or another
// kind of model has.
ResponseRequest parse_response(nlohmann::json body, const ServerConfig& config);

// id: of the answer, without "resp_". The request's generation outlives it.
std::unique_ptr<AnswerFormat> response_format(const GenerationRequest& request, Json repeated,
                                              const std::string& id, std::time_t created);

}  // namespace tandem::server
