// References within a JSON document.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tandem {

// "#", "#/a/b" with ~0, ~1 and %XX as escapes. Null: there is nothing. Lists are not entered by
// anything but numbers.
const nlohmann::ordered_json* find_schema(const nlohmann::ordered_json& root,
                                          const std::string& pointer);

}  // namespace tandem
