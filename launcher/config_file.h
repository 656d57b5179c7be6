// A file that gives a command's flags: `name = value` a line (TOML).
#pragma once

#include "launcher/cli.h"

namespace tandem::launcher {

// --config FILE, and TANDEM_FLAG_NAME for each flag that has no variable yet.
void add_environment_and_config(CLI::App& app);

// For a command that was parsed: flags that neither the command line nor a variable has given get
// the file's values. Throws InputError naming the file and the line's flag.
void apply_config_file(CLI::App& app);

}  // namespace tandem::launcher
