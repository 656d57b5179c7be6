// Where `tandem generate` generates: in this process, in a cluster that it starts, or at a server.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "client/tandem_client.h"
#include "kernels/core/error.h"
#include "runtime/llm_engine.h"

namespace tandem::launcher {

class Backend {
 public:
  struct Finished {
    uint64_t number;  // of the request
    proto::RequestOutput output;
    std::optional<InputError> error;
  };

  virtual ~Backend() = default;
  // Throws InputError if the request is at fault; it may also come with poll().
  virtual void submit(uint64_t number, const nlohmann::json& prompt, const nlohmann::json& params,
                      int32_t priority) = 0;
  // Goes on for a little while; what has finished since the last call.
  virtual std::vector<Finished> poll() = 0;
  // For the text of single tokens; null: it comes with the outputs.
  virtual const Tokenizer* tokenizer() const { return nullptr; }
};

std::unique_ptr<Backend> make_local_backend(std::unique_ptr<LLMEngine> engine);
std::unique_ptr<Backend> make_client_backend(client::Client client);

}  // namespace tandem::launcher
