// Parts of a JSON schema: found by reference, put together.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tandem {

// "#", "#/a/b" with ~0, ~1 and %XX as escapes. Null: there is nothing.
const nlohmann::ordered_json* find_schema(const nlohmann::ordered_json& root,
                                          const std::string& pointer);

// Whether it has keywords that do more than describe.
bool restricts_values(const nlohmann::ordered_json& schema);

// Of the values of which both are true. Throws GrammarError, which names `where`, if one schema
// cannot say that.
nlohmann::ordered_json merged_schemas(nlohmann::ordered_json a, const nlohmann::ordered_json& b,
                                      const std::string& where);

}  // namespace tandem
