// tandem: the one binary. Exit status: 0 all well, 1 bad input, 2 wrong usage, 70 a fault, 71 want
// of threads, memory or descriptors.
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <functional>
#include <utility>
#include <vector>

#include "actors/protocol/process_limits.h"
#include "kernels/core/error.h"
#include "launcher/command.h"
#include "runtime/version.h"

int main(int argc, char** argv) {
  using namespace tandem;
  install_terminate_handler();
  adapt_to_limits();
  // Standard output is for results.
  spdlog::set_default_logger(spdlog::stderr_color_mt("tandem"));
  CLI::App app(
      "Tandem: an inference server for encoder/decoder transformers.\n"
      "Runs HuggingFace checkpoints as they are, with HuggingFace's tokens.",
      "tandem");
  app.set_version_flag("--version", std::string("tandem ") + kVersion);
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, launcher::Run>> commands;
  const auto add = [&](const char* name, const char* help, launcher::Run (*make)(CLI::App&)) {
    CLI::App* sub = app.add_subcommand(name, help);
    commands.emplace_back(sub, make(*sub));
  };
  add("generate", "text (or JSONL requests) in, generated text (or JSONL results) out",
      launcher::add_generate);
  add("score", "log-probabilities and perplexity of targets, given their sources",
      launcher::add_score);
  add("serve", "an engine with its workers, for clients", launcher::add_serve);
  add("worker", "one rank of a server's worker group", launcher::add_worker);
  add("bench", "throughput and latency: of a running server, or of an engine of its own",
      launcher::add_bench);
  add("tokenize", "texts to token ids and back", launcher::add_tokenize);
  add("encode", "the encoder's hidden states, or their mean: embeddings", launcher::add_encode);
  add("inspect", "what a checkpoint is, and the memory that it will take", launcher::add_inspect);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const InputError& e) {  // a flag's value, found while parsing
    std::fprintf(stderr, "tandem: %s\n", e.what());
    return 2;
  }
  try {
    for (const auto& [sub, run] : commands)
      if (sub->parsed()) return run();
  } catch (const launcher::UsageError& e) {
    std::fprintf(stderr, "tandem: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    const std::string want = want_of_resources(e);
    if (!want.empty()) end_for_want(want);
    if (dynamic_cast<const InputError*>(&e) == nullptr) {
      std::fprintf(stderr, "tandem: internal error: %s\n", e.what());
      return kInternalError;
    }
    std::fprintf(stderr, "tandem: %s\n", e.what());
    return 1;
  }
  return 2;
}
