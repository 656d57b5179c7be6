// Feature extraction: /v1/embeddings with the names of HuggingFace's endpoints.
#include <utility>

#include "base/error.h"
#include "server/api/fields/json_body.h"
#include "server/api/huggingface/huggingface.h"
#include "server/api/routes.h"
#include "server/api/scoring/embeddings.h"

namespace tandem::server {
namespace {

// text-embeddings-inference's fields → those of /v1/embeddings.
void translate(nlohmann::json& body, FieldNames& names) {
  if (take(body, "prompt_name"))
    throw not_supported("prompt_name", "the model's prompts have no names; `task` has a prefix");
  if (take_bool(body, "truncate").value_or(false)) {
    body.emplace("truncate_prompt_tokens", -1);
    names.add("truncate_prompt_tokens", "truncate");
  }
  const std::string side = take_string(body, "truncation_direction").value_or("right");
  if (side != "right" && side != "Right")
    throw not_supported("truncation_direction", "the tail is cut, \"right\"");
}

}  // namespace

void post_feature_extraction(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  nlohmann::json body = parse_body(exchange->request());
  EmbeddingStyle style{.input = "inputs", .bare = true};
  const nlohmann::json parameters = take_parameters(body, "parameters", "parameters.", style.names);
  for (const auto& [name, value] : parameters.items())
    if (!body.emplace(name, value).second)
      throw invalid_request("parameters." + name, "is beside the parameters too");
  take(body, "options");
  style.names.around([&] { translate(body, style.names); });
  embed(app, exchange, std::move(body), std::move(style));
}

}  // namespace tandem::server
