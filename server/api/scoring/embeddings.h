// Embeddings for several interfaces: OpenAI's, and HuggingFace's feature extraction.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>

#include "server/api/application.h"
#include "server/api/fields/field_names.h"
#include "server/http/http.h"

namespace tandem::server {

struct EmbeddingStyle {
  const char* input = "input";  // the field of the texts
  bool bare = false;            // the answer is the list of vectors alone
  FieldNames names = {};        // the client's
};
// Answers a body of /v1/embeddings, whose texts are in `style.input`. Throws InputError.
void embed(AppContext& app, const std::shared_ptr<Exchange>& exchange, nlohmann::json body,
           EmbeddingStyle style);

}  // namespace tandem::server
