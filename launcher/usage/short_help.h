// What `--help` shows of a command: what a new user needs. `--help=all` shows the rest.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tandem::launcher {

// The flags, as "--model", of a command by all its words ("tandem serve"), in the order in which
// they are shown. Empty: all of its flags are few.
std::vector<std::string> short_help_flags(std::string_view command);

}  // namespace tandem::launcher
