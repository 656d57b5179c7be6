#include "launcher/adapter_options.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/strings/printable.h"
#include "runtime/protocol/json/json_fields.h"

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

// Whether a word behind --lora-modules NAME=DIR can be one more of them: NAME=DIR without white
// space, or a JSON object of a name and a path.
bool is_module(const std::string& word) {
  if (word.starts_with('{')) {
    const nlohmann::json object = json_or_discarded<nlohmann::json>(word);
    return object.is_object() && object.contains("name") && object.contains("path");
  }
  const size_t equals = word.find('=');
  return equals != std::string::npos && equals > 0 && equals + 1 < word.size() &&
         !word.starts_with('-') && word.find_first_of(" \t\n\r") == std::string::npos;
}

}  // namespace

void repeat_lora_modules(std::vector<std::string>& words) {
  const std::string flag = kLoraModules, with_value = flag + "=";
  std::vector<std::string> out;
  for (size_t i = 0; i < words.size();) {
    const std::string word = words[i++];
    out.push_back(word);
    if (word == "--") {
      out.insert(out.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    if (word != flag && !word.starts_with(with_value)) continue;
    if (word == flag && i < words.size()) out.push_back(words[i++]);
    for (; i < words.size() && is_module(words[i]); ++i) out.insert(out.end(), {flag, words[i]});
  }
  words = std::move(out);
}

void add_adapter_flags(CLI::App& app, proto::AdapterConfig& adapters) {
  app.add_option_function<std::vector<std::string>>(
         kLoraModules,
         [&adapters](const std::vector<std::string>& modules) {
           for (const std::string& text : modules) read_module(text, *adapters.add_modules());
         },
         "LoRA adapters as PEFT saves them, and the names by which requests ask for them; also "
         "{\"name\": NAME, \"path\": DIR}. The flag may be given several times")
      ->allow_extra_args(false)  // what stands behind it may be a text: repeat_lora_modules()
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
