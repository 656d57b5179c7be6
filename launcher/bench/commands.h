// The subcommands of `tandem bench`.
#pragma once

#include "launcher/commands/command.h"

namespace tandem::bench {

launcher::Run add_serve(CLI::App& app);
launcher::Run add_throughput(CLI::App& app);
launcher::Run add_latency(CLI::App& app);

}  // namespace tandem::bench
