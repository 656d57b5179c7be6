// Flags that several commands share.
#pragma once

#include <google/protobuf/message.h>

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli.h"
#include "launcher/hub/names.h"
#include "runtime/execution/engine_config.h"

namespace tandem::launcher {

// The model, and where it comes from if it is not a directory.
struct ModelOptions {
  std::string model;
  std::string revision = "main";
  std::string download_dir;

  // names: of the option, "--model"; with --revision and --download-dir.
  CLI::Option* add_model_flags(CLI::App& app, const char* names);
  // The positional argument MODEL, before all others of the command.
  void add_model_argument(CLI::App& app);
  // The first argument is the model, unless --model names one or the model is `elsewhere`: then it
  // is the first of `rest`, which are the command's other arguments (null: it has none). Throws
  // InputError where it is neither.
  void settle_model(std::vector<std::string>* rest = nullptr, bool elsewhere = false);
  // The directory, downloaded if need be. stop: see hub::find_model. Throws InputError.
  std::filesystem::path find_model(hub::ModelFiles part = hub::ModelFiles::kCheckpoint,
                                   const std::function<bool()>& stop = {}) const;
  bool first_is_model = false;  // so settle_model() found
  // For errors about what is missing: "the first argument, "X", is the model; ", or nothing.
  std::string model_argument() const;

 private:
  std::string argument_;
  const CLI::Option* argument_option_ = nullptr;  // MODEL, until it is settled
};

// --model, --dtype, --threads, --block-size, …: the engine's configuration. Most flags are the
// message's fields of the same names; what a flag writes in another way is a member here, until
// parse().
struct EngineOptions : ModelOptions {
  std::string kv_cache_memory, swap_space = "1GiB";  // sizes
  std::optional<int> num_speculative_tokens;
  std::string speculative_config;  // JSON
  std::string draft_model;         // a directory or a name, as `model`
  EngineConfig config;

  void add_model(CLI::App& app);   // --model, --revision, --download-dir, --dtype, --threads, …
  void add_engine(CLI::App& app);  // the others
  EngineConfig parse() const;      // checked, models as they were given; throws InputError
  EngineConfig parse_and_find_model() const;
  // The directory of the config's draft model in place of its name. stop: as of find_model().
  void find_draft_model(EngineConfig& config, const std::function<bool()>& stop = {}) const;

 private:
  void add_switch(CLI::App& app, const char* names, google::protobuf::Message& part,
                  const char* field, const char* help);

  std::map<std::string, bool> switches_;  // by the field's name
};

// Generation parameters as flags, under HuggingFace's and vLLM's names.
struct SamplingOptions {
  // All but one of that name.
  void add(CLI::App& app, std::string_view without = {});
  // Only those of these names, without "--".
  void add_only(CLI::App& app, std::initializer_list<std::string_view> names);
  // The parameters given, as a request's `params` object.
  nlohmann::json params() const { return params_; }

 private:
  nlohmann::json params_ = nlohmann::json::object();
};

}  // namespace tandem::launcher
