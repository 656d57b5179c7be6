// JSON text of unknown origin: a line of a request, the body of one, the parameters of a program.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace tandem {

// Malformed text, nesting deeper than 64 levels, a NUL byte and invalid UTF-8 are InputErrors. Of
// duplicate keys the last one wins, as in Python.
nlohmann::json parse_json_line(std::string_view line);

}  // namespace tandem
