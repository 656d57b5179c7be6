#include "launcher/run_program.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "actors/network/process_limits.h"
#include "base/error.h"
#include "base/strings/readable_text.h"
#include "launcher/adapter_options.h"
#include "launcher/commands/command.h"
#include "launcher/help.h"
#include "launcher/parse_error.h"
#include "launcher/usage/environment.h"
#include "runtime/version.h"

namespace tandem::launcher {
namespace {

// One line, whatever the message quotes.
int fail(int status, const std::string& message) {
  std::fprintf(stderr, "tandem: %s\n", readable(message).c_str());
  return status;
}

// Whether it may go well the next time: a server that is not there yet, a port that is not free.
int status_of(const InputError& error) {
  switch (error.kind()) {
    case ErrorKind::kOverloaded:
    case ErrorKind::kUnavailable:
    case ErrorKind::kTimeout:
    case ErrorKind::kInternal: return 1;
    default: return 2;
  }
}

// The command line as CLI11 reads it, last word first: flags have no values that they may go
// without, so --help=all is --help-all there; and one value each, so a list repeats its flag.
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  for (std::string& word : words) {
    if (word == "--") break;
    if (word == "--help=all") word = "--help-all";
  }
  repeat_lora_modules(words);
  return {words.rbegin(), words.rend()};
}

int run_command(const std::vector<std::pair<CLI::App*, Run>>& commands) {
  for (const auto& [sub, run] : commands) {
    if (!sub->parsed()) continue;
    const int status = run();
    std::cout.flush();
    if (!std::cout || std::fflush(stdout) != 0)
      return fail(status != 0 ? status : 1, "standard output cannot be written to");
    return status;
  }
  return 2;
}

}  // namespace

int run_program(int argc, char** argv) {
  install_terminate_handler();
  adapt_to_limits();
  forget_service_variables();
  // Standard output is for results.
  spdlog::set_default_logger(spdlog::stderr_color_mt("tandem"));
  CLI::App app(
      "Tandem is an inference server for encoder/decoder transformers. It runs HuggingFace "
      "checkpoints as they are, and generates the same tokens as HuggingFace.",
      "tandem");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_help_all_flag("--help-all", "Print all of it and exit; also --help=all");
  app.set_version_flag("-V,--version", std::string("tandem ") + kVersion,
                       "Print the version and exit")
      ->group("Help");
  app.require_subcommand(1);
  std::vector<std::pair<CLI::App*, Run>> commands;
  const auto add = [&](const char* name, const char* help, Run (*make)(CLI::App&)) {
    CLI::App* sub = app.add_subcommand(name, help);
    commands.emplace_back(sub, make(*sub));
  };
  add("generate", "Generate text from texts, or JSONL results from JSONL requests", add_generate);
  add("summarize", "Summarise texts, files and folders, of any length", add_summarize);
  add("translate", "Translate texts, files and folders, of any length", add_translate);
  add("read", "Print the text in images", add_read);
  add("score", "Tell how likely targets are to a model, given their sources", add_score);
  add("classify", "Tell the labels of texts, the model's or your own", add_classify);
  add("answer", "Find where in a context the answer to a question is", add_answer);
  add("embed", "Turn texts into vectors", add_embed);
  add("transcribe", "Write down what is said in files of sound", add_transcribe);
  add("serve", "Serve a model to HTTP and other clients", add_serve);
  add("worker", "Run one rank of a server's worker group", add_worker);
  add("bench", "Measure the throughput and latency of a server or of an engine", add_bench);
  add("tokenize", "Turn texts into token ids", add_tokenize);
  add("encode", "Write the encoder's hidden states, or their mean as an embedding", add_encode);
  add("inspect", "Tell what a checkpoint is, and the memory that it will take", add_inspect);
  add("help", "Print the help of a command", add_help);
  add("version", "Print the version", add_version);
  try {
    app.parse(arguments(argc, argv));
  } catch (const CLI::Success& e) {  // help or version
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return fail(2, explain(app, e));
  } catch (const InputError& e) {  // a flag's value, found while parsing
    return fail(2, e.what());
  }
  try {
    return run_command(commands);
  } catch (const std::exception& e) {
    const std::string want = want_of_resources(e);
    if (!want.empty()) end_for_want(want);
    if (const auto* input = dynamic_cast<const InputError*>(&e))
      return fail(status_of(*input), e.what());
    return fail(kInternalError, std::string("internal error: ") + e.what());
  }
}

}  // namespace tandem::launcher
