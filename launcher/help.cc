// Asks options for their parts only (names, type, default), never for text that CLI11 has put
// together: that differs between its versions, and shows what is inside.
#include "launcher/help.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <utility>
#include <vector>

#include "launcher/usage/environment.h"
#include "launcher/usage/short_help.h"

namespace tandem::launcher {
namespace {

constexpr size_t kColumn = 30, kWidth = 100;

// Words of `text` in lines from `column` on; the first one is begun already.
std::string wrapped(const std::string& text, size_t column) {
  std::string out, word;
  size_t at = column;
  for (std::istringstream words(text); words >> word;) {
    if (at > column && at + 1 + word.size() > kWidth) {
      out += "\n" + std::string(column, ' ');
      at = column;
    }
    if (at > column) {
      out += ' ';
      ++at;
    }
    out += word;
    at += word.size();
  }
  return out + "\n";
}

std::string entry(const std::string& names, const std::string& text) {
  std::string out = "  " + names;
  if (out.size() + 2 > kColumn)
    out += "\n" + std::string(kColumn, ' ');
  else
    out.resize(kColumn, ' ');
  return out + wrapped(text, kColumn);
}

// 1e+06 as a person writes it.
std::string plain_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str() || *end != 0) return text;
  std::ostringstream out;
  out.precision(12);
  out << value;
  return out.str();
}

// The type's name carries the checks: "INT:INT in [0 - 65535]".
std::string bounds_of(const std::string& type) {
  const size_t from = type.find(" in ["), dash = type.find(" - ", from), to = type.find(']', from);
  if (from == std::string::npos || dash == std::string::npos || to == std::string::npos) return {};
  return plain_number(type.substr(from + 5, dash - from - 5)) + " to " +
         plain_number(type.substr(dash + 3, to - dash - 3));
}

// "DIR", "TEXT..."; nothing for a flag.
std::string value_of(const CLI::Option& option) {
  if (option.get_type_size() == 0) return {};
  const std::string type = option.get_type_name();
  const size_t bounds = type.find(" in [");
  const size_t end = bounds == std::string::npos ? bounds : type.rfind(':', bounds);
  return type.substr(0, end) + (option.get_expected_max() > 1 ? "..." : "");
}

bool has_own_variable(const CLI::Option& option) {
  return !option.get_lnames().empty() &&
         option.get_envname() == variable_of_flag(option.get_lnames().front());
}

std::string text_of(const CLI::Option& option) {
  std::vector<std::string> notes;
  if (option.get_required()) notes.emplace_back("required");
  if (const std::string bounds = bounds_of(option.get_type_name()); !bounds.empty())
    notes.push_back(bounds);
  const std::string value = option.get_default_str();
  if (option.get_type_size() != 0 && !value.empty() && value != "[]" && value != "\"\"" &&
      value != "{}")
    notes.push_back("default " + plain_number(value));
  if (!option.get_envname().empty() && !has_own_variable(option))
    notes.push_back("from the variable " + option.get_envname());
  std::string text = option.get_description();
  for (size_t i = 0; i < notes.size(); ++i) text += (i == 0 ? " (" : ", ") + notes[i];
  return text + (notes.empty() ? "" : ")");
}

std::string flags_of(const CLI::Option& option) {
  std::string names;
  for (const std::string& name : option.get_snames()) names += (names.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames())
    names += (names.empty() ? "--" : ", --") + name;
  const std::string value = value_of(option);
  return names + (value.empty() ? "" : " " + value);
}

using Section = std::pair<std::string, std::string>;  // heading, entries

void add_to(std::vector<Section>& groups, const std::string& heading, const std::string& text) {
  const auto it = std::find_if(groups.begin(), groups.end(),
                               [&](const Section& group) { return group.first == heading; });
  if (it == groups.end())
    groups.emplace_back(heading, text);
  else
    it->second += text;
}

// The options that `--help` shows of a command of many; and how many it does not.
std::pair<std::string, size_t> short_list(const CLI::App& app, const std::string& name) {
  std::string out;
  size_t shown = 0, all = 0;
  for (const std::string& flag : short_help_flags(name))
    if (const CLI::Option* option = app.get_option_no_throw(flag)) {
      out += entry(flags_of(*option), text_of(*option));
      ++shown;
    }
  for (const CLI::Option* option : app.get_options())
    all += !option->get_lnames().empty() && option != app.get_help_ptr() &&
                   option != app.get_help_all_ptr()
               ? 1
               : 0;
  return {out, all - shown};
}

// Below the options.
std::string variables_note() {
  return "\n" + wrapped(
                    "Every option may come from an environment variable or from the file of "
                    "--config, too: --max-num-seqs is TANDEM_MAX_NUM_SEQS, or a line "
                    "max-num-seqs = 64. The command line goes first, then the environment, "
                    "then the file.",
                    0);
}

struct Page {
  std::string usage;
  std::vector<Section> groups;
  std::string help;  // the options about help
  bool variables = false;
};

void add_commands_and_arguments(const CLI::App& app, Page& page) {
  const auto commands = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* command : commands)
    add_to(page.groups, "Commands", entry(command->get_name(), command->get_description()));
  if (!commands.empty()) page.usage += " COMMAND";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string argument =
        option->get_name(/*positional=*/true) + (option->get_expected_max() > 1 ? "..." : "");
    page.usage += option->get_required() ? " " + argument : " [" + argument + "]";
    add_to(page.groups, "Arguments", entry(argument, text_of(*option)));
  }
}

// is_short: those of the short list come from elsewhere.
void add_options(const CLI::App& app, const std::string& name, bool is_short, Page& page) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() && option->get_snames().empty()) continue;
    page.variables = page.variables || has_own_variable(*option);
    const std::string& group = option->get_group();
    if (group.empty()) continue;  // hidden
    if (option == app.get_help_ptr() || option == app.get_help_all_ptr() || group == "Help")
      page.help += entry(flags_of(*option), text_of(*option));
    else if (!is_short)  // an option that nobody has put into a group: the command's own
      add_to(page.groups, group == "Options" || group == "OPTIONS" ? "Options of " + name : group,
             entry(flags_of(*option), text_of(*option)));
  }
}

}  // namespace

std::string HelpFormatter::make_help(const CLI::App* app, std::string name,
                                     CLI::AppFormatMode mode) const {
  const bool all = mode == CLI::AppFormatMode::All;
  const bool is_short = !all && !short_help_flags(name).empty();
  Page page{"Usage: " + name + " [OPTIONS]", {}, {}, false};
  add_commands_and_arguments(*app, page);
  add_options(*app, name, is_short, page);
  if (is_short) {
    const auto [options, others] = short_list(*app, name);
    page.groups.emplace_back(
        "Options, and " + std::to_string(others) + " others in `" + name + " --help=all`", options);
  }
  page.groups.emplace_back("Help", page.help);
  std::string out = wrapped(app->get_description(), 0) + "\n" + page.usage + "\n";
  for (const auto& [heading, entries] : page.groups) out += "\n" + heading + ":\n" + entries;
  if (page.variables && !is_short) out += variables_note();
  if (all)
    for (const CLI::App* command : app->get_subcommands([](const CLI::App*) { return true; }))
      out += "\n" + make_help(command, name + " " + command->get_name(), mode);
  return out;
}

}  // namespace tandem::launcher
