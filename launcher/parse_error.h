// What a person is told about a command line that does not parse.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace tandem::launcher {

// A misspelt command or option gets the nearest one that there is.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tandem::launcher
