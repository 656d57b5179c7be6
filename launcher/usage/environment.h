// Variables of the environment that a command has for its flags.
#pragma once

#include <string>
#include <vector>

#include "launcher/cli.h"

namespace tandem::launcher {

// TANDEM_FLAG_NAME for --flag-name.
std::string variable_of_flag(const std::string& name);

// Kubernetes and Docker set TANDEM_PORT to a URL for a service of the name "tandem": that is not
// the flag's. To be called before the command line is read, and before other threads are made.
void forget_service_variables();

// For each variable TANDEM_… that neither a flag of the command nor anything else reads, a sentence
// that names it, and the nearest one that there is.
std::vector<std::string> unknown_variables(const CLI::App& app);

}  // namespace tandem::launcher
