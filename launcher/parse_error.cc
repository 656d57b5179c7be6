// CLI11 reports what is missing before what it did not know, which is mostly the cause.
#include "launcher/parse_error.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "base/strings/nearest_name.h"
#include "base/strings/readable_text.h"
#include "launcher/usage/foreign_flags.h"

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

bool has_option(const CLI::App& app, const std::string& name) {
  const auto names = options_of(app);
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> commands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> split(std::string_view words) {
  std::vector<std::string> out;
  while (!words.empty()) {
    const size_t end = std::min(words.find(' '), words.size());
    out.emplace_back(words.substr(0, end));
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return out;
}

// The commands that have an option, all words of each.
std::vector<std::string> commands_with(const CLI::App& root, const std::string& option) {
  std::vector<std::string> out;
  for (const CLI::App* command : root.get_subcommands([](const CLI::App*) { return true; })) {
    if (has_option(*command, option)) out.push_back(full_name(*command));
    for (std::string& inner : commands_with(*command, option)) out.push_back(std::move(inner));
  }
  return out;
}

// An option that the program has, but not this command.
std::string elsewhere(const CLI::App& command, const std::string& option) {
  const CLI::App* root = &command;
  while (root->get_parent() != nullptr) root = root->get_parent();
  const std::vector<std::string> others = commands_with(*root, option);
  if (others.empty()) return {};
  std::string field = option.substr(2);
  std::replace(field.begin(), field.end(), '-', '_');
  // A server's requests say what the command line says of texts.
  const bool of_requests =
      command.get_name() == "serve" &&
      std::find(others.begin(), others.end(), "tandem generate") != others.end();
  return option + " is of " + in_words(others) +
         (of_requests ? "; of a server, requests ask for it, as " + field : "");
}

// What somebody may have meant who knows other programs; empty: that is not known.
std::string explain_foreign(const CLI::App& command, const std::string& name) {
  const ForeignFlag* flag = find_foreign_flag(name);
  if (flag == nullptr) return {};
  const std::vector<std::string> ours = split(flag->ours);
  const std::string note(flag->note);
  for (const std::string& option : ours)
    if (has_option(command, option))
      return "here it is " + option + (note.empty() ? "" : ": " + note);
  if (!note.empty()) return note;
  for (const std::string& option : ours)
    if (std::string where = elsewhere(command, option); !where.empty()) return where;
  return {};
}

std::string explain_option(const CLI::App& command, const std::string& name) {
  std::string dashed = name;
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  if (has_option(command, dashed)) return "; did you mean " + dashed + "?";
  if (const std::string meant = explain_foreign(command, name); !meant.empty()) return "; " + meant;
  if (dashed.size() > 2)
    if (const std::string where = elsewhere(command, dashed); !where.empty()) return "; " + where;
  return did_you_mean(name, options_of(command));
}

// Empty: nothing was left over.
std::string explain_rest(const CLI::App& command) {
  const std::vector<std::string> rest = command.remaining();
  for (const std::string& word : rest)
    if (word.size() > 1 && word[0] == '-') {
      const std::string name = word.substr(0, word.find('='));
      return "there is no option " + name + explain_option(command, name);
    }
  if (rest.empty()) return {};
  const std::vector<std::string> commands = commands_of(command);
  if (commands.empty()) return "\"" + rest.front() + "\" is one argument too many";
  std::string hint = did_you_mean(rest.front(), commands);
  if (command.get_parent() == nullptr)
    if (const std::string_view meant = foreign_command(rest.front()); !meant.empty())
      hint = "; " + std::string(meant);
  return "there is no command \"" + rest.front() + "\"" +
         (hint.empty() ? "; the commands are " + in_words(commands) : hint);
}

}  // namespace

std::string explain_value(std::string_view text) {
  constexpr std::string_view kStart = "Could not convert: ", kEquals = " = ";
  const size_t equals = text.find(kEquals);
  if (!text.starts_with(kStart) || equals == text.npos) return {};
  return std::string(text.substr(kStart.size(), equals - kStart.size())) + ": \"" +
         readable(text.substr(equals + kEquals.size())) + "\" is not a number";
}

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  const auto nearest = nearest_name(word, names);
  return nearest ? "; did you mean " + *nearest + "?" : "";
}

std::string explain(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  std::string what = explain_rest(*command);
  if (what.empty()) what = explain_value(error.what());
  if (what.empty()) {
    const std::vector<std::string> commands = commands_of(*command);
    what = commands.empty() ? error.what() : "a command is missing: " + in_words(commands);
  }
  return what + " (see " + full_name(*command) + " --help)";
}

}  // namespace tandem::launcher
