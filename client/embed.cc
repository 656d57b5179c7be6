// Embeddings, from the outputs of their requests.
#include "client/tandem_client.h"

namespace tandem::client {

std::vector<float> embedding_of(const proto::RequestOutput& output) {
  if (!output.finished() || !output.has_embedding())
    throw ClientError("invalid_request_error", "pooling: the output is not that of an embedding",
                      "pooling");
  const auto& values = output.embedding().values();
  return {values.begin(), values.end()};
}

std::vector<float> Client::embed(const Prompt& source, const std::string& pooling, bool normalize) {
  return embedding_of(submit({.prompt = Prompt::pooled(source, pooling, normalize)}).get());
}

}  // namespace tandem::client
