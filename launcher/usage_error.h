// What ends a command with status 2.
#pragma once

#include <string>

#include "base/error.h"

namespace tandem::launcher {

// The command line makes no sense; status 2, as for flags that do not parse.
class UsageError : public InputError {
 public:
  UsageError(const std::string& flag, const std::string& message)
      : InputError(ErrorKind::kInvalidRequest, flag + ": " + message, flag) {}
};

}  // namespace tandem::launcher
