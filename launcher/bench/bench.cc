// tandem bench: serve (a running server under load), throughput and latency (a server's engine, in
// this process).
#include <CLI/CLI.hpp>
#include <memory>
#include <utility>
#include <vector>

#include "launcher/bench/commands.h"
#include "launcher/commands/command.h"

namespace tandem::launcher {

Run add_bench(CLI::App& app) {
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, Run>> commands;
  const auto add = [&](const char* name, const char* help, Run (*make)(CLI::App&)) {
    CLI::App* sub = app.add_subcommand(name, help);
    commands.emplace_back(sub, make(*sub));
  };
  add("serve", "a running OpenAI-compatible server under load", bench::add_serve);
  add("throughput", "the engine that a server runs, all requests at once", bench::add_throughput);
  add("latency", "the engine that a server runs, batch after batch", bench::add_latency);
  return [commands] {
    for (const auto& [sub, run] : commands)
      if (sub->parsed()) return run();
    return 2;
  };
}

}  // namespace tandem::launcher
