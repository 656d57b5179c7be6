// Flags that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "runtime/engine_config.h"

namespace tandem::launcher {

// --model, --dtype, --threads, --block-size, … as strings until parsed, so that a bad value is
// reported like any other bad input, with the flag's name.
struct EngineOptions {
  std::string model;
  std::string dtype = "auto";
  std::string kv_cache_memory;
  std::string swap_space = "1GiB";
  std::string preemption = "auto";
  EngineConfig config;

  void add_model(CLI::App& app);   // --model, --dtype, --threads
  void add_engine(CLI::App& app);  // the others
  EngineConfig parse() const;      // checked; throws InputError
};

// Generation parameters as flags, under HuggingFace's and vLLM's names.
struct SamplingOptions {
  void add(CLI::App& app);
  // The parameters given, as a request's `params` object.
  nlohmann::json params() const { return params_; }

 private:
  nlohmann::json params_ = nlohmann::json::object();
};

}  // namespace tandem::launcher
