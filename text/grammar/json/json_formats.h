// The formats of JSON schemas that say how a text is written.
#pragma once

#include <optional>
#include <string>

namespace tandem {

// An expression for the whole text; nothing of a format that is not known, which then says nothing.
std::optional<std::string> pattern_of_format(const std::string& format);

}  // namespace tandem
