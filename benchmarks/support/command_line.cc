#include "benchmarks/support/command_line.h"

#include <CLI/CLI.hpp>
#include <utility>

namespace tandem::bench {

CommandLine::CommandLine(const std::string& description)
    : app_(std::make_unique<CLI::App>(description)) {}
CommandLine::~CommandLine() = default;

CommandLine::Option CommandLine::Option::required() const {
  option_->required();
  return *this;
}

CommandLine::Option CommandLine::Option::range(int64_t least, int64_t most) const {
  option_->check(CLI::Range(least, most));
  return *this;
}

CommandLine::Option CommandLine::Option::one_of(std::vector<std::string> names) const {
  option_->check(CLI::IsMember(std::move(names)));
  return *this;
}

CommandLine::Option CommandLine::Option::list() const {
  option_->delimiter(',');
  return *this;
}

template <class T>
CommandLine::Option CommandLine::add(const std::string& name, T& value, const std::string& help) {
  return Option(app_->add_option(name, value, help)->capture_default_str());
}
template CommandLine::Option CommandLine::add(const std::string&, int&, const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, int64_t&, const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, uint64_t&, const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, double&, const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, std::string&, const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, std::vector<int>&,
                                              const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, std::vector<int64_t>&,
                                              const std::string&);
template CommandLine::Option CommandLine::add(const std::string&, std::vector<std::string>&,
                                              const std::string&);

void CommandLine::flag(const std::string& name, bool& value, const std::string& help) {
  app_->add_flag(name, value, help);
}

std::optional<int> CommandLine::parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app_->exit(e);
  }
  return std::nullopt;
}

}  // namespace tandem::bench
