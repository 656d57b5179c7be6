// A benchmark's command line. CLI11 reads it, and is compiled once for all benchmarks: its header
// takes a compiler 3 to 6 s. --help shows the values before parse() as defaults.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tandem::bench {

class CommandLine {
 public:
  class Option {
   public:
    explicit Option(CLI::Option* option) : option_(option) {}
    Option required() const;
    Option range(int64_t least, int64_t most) const;
    Option one_of(std::vector<std::string> names) const;
    // Values may be separated by commas.
    Option list() const;

   private:
    CLI::Option* option_;
  };

  explicit CommandLine(const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // T: int, int64_t, uint64_t, double, std::string, or a vector of int, int64_t or std::string.
  template <class T>
  Option add(const std::string& name, T& value, const std::string& help = {});
  void flag(const std::string& name, bool& value, const std::string& help);
  // The status to end with, if there is one: after --help or an error.
  std::optional<int> parse(int argc, char** argv);

 private:
  const std::unique_ptr<CLI::App> app_;
};

}  // namespace tandem::bench
