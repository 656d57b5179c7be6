// Logs: on standard error, as text or JSON lines, each tagged with who writes it.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli.h"

namespace tandem::launcher {

struct LogOptions {
  std::string level = "info";
  std::string format = "text";

  void add(CLI::App& app);
  // `who`: "engine", "worker 0.1" (replica.rank). Throws InputError naming the flag.
  void apply(const std::string& who) const;
  // For processes started from here.
  std::vector<std::string> flags() const;
};

}  // namespace tandem::launcher
