// CLI11 reads configuration files for the program's own flags only, not for those of its
// subcommands: this is theirs.
#include "launcher/config_file.h"

#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "launcher/commands/command.h"
#include "launcher/parse_error.h"
#include "launcher/usage/environment.h"

namespace tandem::launcher {
namespace {

void set_option(CLI::Option& option, const CLI::ConfigItem& item) {
  if (option.get_expected_min() == 0) {
    if (item.inputs.size() > 1) throw CLI::ConversionError::TooManyInputsFlag(item.name);
    const std::string value = item.inputs.empty() ? "true" : item.inputs.front();
    option.add_result(option.get_flag_value(item.name, value));
  } else {
    option.add_result(item.inputs);
  }
  option.run_callback();
}

std::vector<std::string> names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    names.insert(names.end(), option->get_lnames().begin(), option->get_lnames().end());
  return names;
}

// "port: 8000" has no value for CLI11.
bool is_yaml(const CLI::ConfigItem& item) { return item.name.find(": ") != item.name.npos; }

}  // namespace

void add_environment_and_config(CLI::App& app) {
  app.add_option("--config", "File with options, a line name = value for each (TOML)")
      ->type_name("FILE")
      ->group("Configuration");
  for (CLI::Option* option : app.get_options()) {
    const std::string name = option->get_lnames().empty() ? "" : option->get_lnames().front();
    if (name.empty() || name.rfind("help", 0) == 0 || !option->get_envname().empty()) continue;
    option->envname(variable_of_flag(name));
  }
}

void apply_config_file(CLI::App& app) {
  const CLI::Option* config = app.get_option("--config");
  if (config->empty()) return;
  const std::string file = config->as<std::string>();
  if (!std::filesystem::is_regular_file(file))
    throw invalid_request("--config", file + ": no such file");
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_file(file);
  } catch (const std::exception& e) {
    throw invalid_request("--config", file + ": " + e.what());
  }
  // What was given before the file was looked at wins; of two lines of the file the first.
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // a section begins, ends
    CLI::Option* option = app.get_option_no_throw("--" + item.name);
    if (!item.parents.empty() || option == nullptr || item.name == "config" ||
        item.name.rfind("help", 0) == 0)
      throw invalid_request(
          "--config", file + ": \"" + item.fullname() + "\" is not a flag of " + app.get_name() +
                          (is_yaml(item) ? "; lines are NAME = VALUE (TOML)"
                                         : did_you_mean(item.name, names_of(app))));
    if (!option->empty()) continue;
    try {
      set_option(*option, item);
    } catch (const std::exception& e) {
      const std::string value = explain_value(e.what());
      throw invalid_request("--config",
                            file + ": " + (value.empty() ? item.name + ": " + e.what() : value));
    }
  }
}

}  // namespace tandem::launcher
