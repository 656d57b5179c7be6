#include "launcher/adapter_options.h"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/json_fields.h"
#include "base/strings/printable.h"

namespace tandem::launcher {
namespace {

constexpr const char* kLoraModules = "--lora-modules";

// NAME=DIR, or vLLM's {"name": …, "path": …}, whose base_model_name says nothing here.
void read_module(const std::string& text, proto::AdapterModule& out) {
  if (text.starts_with('{')) {
    const nlohmann::json object = parse_json(text, kLoraModules);
    for (const auto& [key, value] : object.items()) {
      if (key == "name")
        out.set_name(read_string(value, key));
      else if (key == "path")
        out.set_path(read_string(value, key));
      else if (key != "base_model_name")
        throw invalid_request(kLoraModules,
                              in_quotes(key) + " is none of name, path, base_model_name");
    }
  } else if (const size_t equals = text.find('='); equals != std::string::npos) {
    out.set_name(text.substr(0, equals));
    out.set_path(text.substr(equals + 1));
  }
  if (out.name().empty() || out.path().empty())
    throw invalid_request(kLoraModules, in_quotes(text) + " is not of the form NAME=DIR");
  // Workers may run in other directories.
  out.set_path(std::filesystem::absolute(out.path()).lexically_normal().string());
}

}  // namespace

void add_adapter_flags(CLI::App& app, proto::AdapterConfig& adapters) {
  app.add_option_function<std::vector<std::string>>(
         kLoraModules,
         [&adapters](const std::vector<std::string>& modules) {
           for (const std::string& text : modules) read_module(text, *adapters.add_modules());
         },
         "A LoRA adapter as PEFT saves it, and the name by which requests ask for it; for several, "
         "give the flag several times (CPUs only)")
      ->allow_extra_args(false)  // what stands behind it may be a text
      ->type_name("NAME=DIR");
  app.add_option_function<int>(
         "--max-lora-rank", [&adapters](int rank) { adapters.set_max_lora_rank(rank); },
         "Refuse adapters of a rank above that")
      ->default_str(std::to_string(adapters.max_lora_rank()));
  app.add_option_function<int>(
         "--max-loras", [&adapters](int count) { adapters.set_max_loras(count); },
         "Keep at most that many adapters that were loaded while serving and are not in use")
      ->default_str(std::to_string(adapters.max_loras()));
}

void add_adapter_changes(CLI::App& app, proto::AdapterConfig& adapters) {
  app.add_flag_callback(
      "--allow-runtime-lora-updating",
      [&adapters] { adapters.set_allow_runtime_lora_updating(true); },
      "Let clients load and unload adapters: /v1/load_lora_adapter reads any directory of the "
      "server's host");
}

}  // namespace tandem::launcher
