// tandem help [COMMAND...] and tandem version: what --help and --version print.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "launcher/commands/command.h"
#include "launcher/parse_error.h"
#include "runtime/version.h"

namespace tandem::launcher {
namespace {

struct HelpOptions {
  std::vector<std::string> words;
};

// root: the program.
int print_help(const CLI::App& root, const HelpOptions& options) {
  const CLI::App* command = &root;
  std::string name = root.get_name();
  for (const std::string& word : options.words) {
    std::vector<std::string> names;
    const CLI::App* found = nullptr;
    for (const CLI::App* sub : command->get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(sub->get_name());
      if (sub->get_name() == word) found = sub;
    }
    if (found == nullptr)
      throw invalid_request(
          "COMMAND", "there is no command \"" + word + "\" of " + name + did_you_mean(word, names));
    command = found;
    name += " " + word;
  }
  const std::string text =
      command->get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace

Run add_help(CLI::App& app) {
  auto options = std::make_shared<HelpOptions>();
  app.add_option("COMMAND", options->words, "A command, such as serve or bench serve");
  return [options, &app] { return print_help(*app.get_parent(), *options); };
}

Run add_version(CLI::App&) {
  return [] {
    std::printf("tandem %s\n", kVersion);
    return 0;
  };
}

}  // namespace tandem::launcher
