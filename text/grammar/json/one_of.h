// Whether values may match several schemas of a oneOf, which then match none of it.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "text/grammar/json/schema_parts.h"

namespace tandem {

// The first two of which a text that the grammar of one writes may be a value of the other. None:
// it is plain to see from types, bounds, constants and names of properties that there are none.
std::optional<std::pair<size_t, size_t>> first_overlap(
    std::span<const nlohmann::ordered_json> schemas, SchemaParts& parts, const std::string& where);

}  // namespace tandem
