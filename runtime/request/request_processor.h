// The first half of a request's life: what is asked for → token ids and resolved parameters.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>

#include "models/config/config.h"
#include "runtime/protocol/tandem.pb.h"
#include "runtime/request/params_resolver.h"
#include "runtime/request/prompt.h"
#include "runtime/request/request_error.h"
#include "text/tokenizer.h"

namespace tandem {

struct PreparedRequest {
  proto::EncoderDecoderInputs inputs;
  proto::SamplingParams params;  // always with a seed, unless nothing is generated
};

// Reads config and tokenizer of a checkpoint, not its weights. Usable from any thread.
class RequestProcessor {
 public:
  // seed: of requests that have none, in the order of prepare() calls; absent: random. Throws
  // InputError naming the file.
  RequestProcessor(const std::filesystem::path& model, std::optional<uint64_t> seed);

  // Validates, tokenises, truncates, resolves. Throws InputError naming the field.
  PreparedRequest prepare(const proto::Prompt& prompt, const proto::GenerationOptions& options);

  const Tokenizer& tokenizer() const { return *tokenizer_; }
  const ModelConfig& model_config() const { return config_; }

 private:
  // Languages are ids by then.
  PreparedRequest prepare_resolved(const proto::Prompt& prompt,
                                   const proto::GenerationOptions& options);

  ModelConfig config_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::optional<ImageProcessor> images_;  // of a model that reads images
  ParamsResolver resolver_;
  std::atomic<uint64_t> next_seed_;
};

}  // namespace tandem
