// --lora-modules and what belongs to it.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli.h"
#include "runtime/protocol/engine_config.pb.h"

namespace tandem::launcher {

// The words of a command line, with --lora-modules A B C (vLLM's form) as the flag once for each.
// Words end the list that do not look like an adapter, as NAME=DIR and JSON objects do.
void repeat_lora_modules(std::vector<std::string>& words);

// Each flag writes into `adapters`, which outlives the app's parsing.
void add_adapter_flags(CLI::App& app, proto::AdapterConfig& adapters);

// The flag of servers, whose clients may load others.
void add_adapter_changes(CLI::App& app, proto::AdapterConfig& adapters);

}  // namespace tandem::launcher
