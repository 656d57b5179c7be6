// What a person is told about a command line that does not parse.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/cli.h"

namespace tandem::launcher {

// "; did you mean X?", or nothing.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& names);

// CLI11's "Could not convert: --threads = many" in words. Empty: it is another error.
std::string explain_value(std::string_view text);

// A misspelt command or option gets the nearest one that there is.
std::string explain(const CLI::App& app, const CLI::ParseError& error);

}  // namespace tandem::launcher
