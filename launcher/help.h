// What `--help` prints, the same with every version of CLI11: groups of options under headings,
// names in one column, plain sentences in the other.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tandem::launcher {

// Options that are added to `app` while the object lives stand under that heading.
class Heading {
 public:
  Heading(CLI::App& app, const std::string& heading)
      : defaults_(*app.option_defaults()), before_(defaults_.get_group()) {
    defaults_.group(heading);
  }
  ~Heading() { defaults_.group(before_); }
  Heading(const Heading&) = delete;
  Heading& operator=(const Heading&) = delete;

 private:
  CLI::OptionDefaults& defaults_;
  std::string before_;
};

class HelpFormatter : public CLI::FormatterBase {
 public:
  // name: all words of the command, "tandem serve". mode: All for every option, else those of
  // short_help.h, where there are many.
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override;
};

}  // namespace tandem::launcher
