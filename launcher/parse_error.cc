// CLI11 reports what is missing before what it did not know, which is mostly the cause.
#include "launcher/parse_error.h"

#include "base/json_fields.h"

namespace tandem::launcher {
namespace {

// All words of a command.
std::string full_name(const CLI::App& app) {
  return app.get_parent() == nullptr ? app.get_name()
                                     : full_name(*app.get_parent()) + " " + app.get_name();
}

std::string in_words(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  return names;
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

// Empty: nothing was left over.
std::string explain_rest(const CLI::App& command) {
  const std::vector<std::string> rest = command.remaining();
  for (const std::string& word : rest)
    if (word.size() > 1 && word[0] == '-') {
      const std::string name = word.substr(0, word.find('='));
      return "there is no option " + name + did_you_mean(name, options_of(command));
    }
  if (rest.empty()) return {};
  const std::vector<std::string> commands = commands_of(command);
  if (commands.empty()) return "\"" + rest.front() + "\" is one argument too many";
  const std::string hint = did_you_mean(rest.front(), commands);
  return "there is no command \"" + rest.front() + "\"" +
         (hint.empty() ? "; the commands are " + in_words(commands) : hint);
}

}  // namespace

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  const auto nearest = nearest_name(word, names);
  return nearest ? "; did you mean " + *nearest + "?" : "";
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  std::string what = explain_rest(*command);
  if (what.empty()) {
    const std::vector<std::string> commands = commands_of(*command);
    what = commands.empty() ? error.what() : "a command is missing: " + in_words(commands);
  }
  return what + " (see " + full_name(*command) + " --help)";
}

}  // namespace tandem::launcher
