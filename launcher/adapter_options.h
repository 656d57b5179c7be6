// --lora-modules and what belongs to it.
#pragma once

#include <CLI/CLI.hpp>

#include "runtime/protocol/engine_config.pb.h"

namespace tandem::launcher {

// Each flag writes into `adapters`, which outlives the app's parsing.
void add_adapter_flags(CLI::App& app, proto::AdapterConfig& adapters);

// The flag of servers, whose clients may load others.
void add_adapter_changes(CLI::App& app, proto::AdapterConfig& adapters);

}  // namespace tandem::launcher
