// What the tests of parameters share: a small BART and a short way to resolve a request.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "base/json.h"
#include "runtime/request/params/params_resolver.h"

namespace tandem::params_test {

using nlohmann::json;
using proto::SamplingParams;
inline constexpr int kVocab = 100;
inline constexpr int kPositions = 64;

// A BART: start 2, bos 0, eos 2.
inline ModelConfig bart(const char* generation = "{}") {
  ModelConfig config;
  config.vocab_size = kVocab;
  config.max_position_embeddings = kPositions;
  config.bos_token_id = 0;
  config.pad_token_id = 1;
  config.decoder_start_token_id = 2;
  config.eos_token_id = {2};
  config.generation = json_from<json>(generation);
  config.raw = {{"task_specific_params", {{"t", json::object()}}}};
  return config;
}

inline constexpr PromptLengths kDefaultPrompt{2, true};
inline constexpr PromptLengths kStartOnly{1, false};

inline SamplingParams resolve(const json& params, const char* generation = "{}",
                              PromptLengths lengths = kDefaultPrompt) {
  const ModelConfig config = bart(generation);
  return ParamsResolver(config, kVocab).resolve(read_options(params), lengths);
}

inline InputError error_of(const json& params, const char* generation = "{}",
                           PromptLengths lengths = kDefaultPrompt) {
  try {
    resolve(params, generation, lengths);
  } catch (const InputError& error) {
    return error;
  }
  ADD_FAILURE() << params.dump() << " is accepted";
  return invalid_request("", "");
}

inline void expect_error(const std::string& name, const json& params,
                         const std::string& text = "") {
  const InputError error = error_of(params);
  EXPECT_EQ(error.param(), name) << error.what();
  EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
}

}  // namespace tandem::params_test
