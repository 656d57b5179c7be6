// JSON schemas → the texts of the values that they describe.
#pragma once

#include <nlohmann/json.hpp>

#include "text/grammar/grammar.h"

namespace tandem {

// Into `grammar`. The texts have no white space; an object's properties come in the schema's order,
// and there are no others unless additionalProperties allows them in words. Definitions may refer
// to themselves. docs/constrained.md has the keywords. Throws GrammarError naming the place in the
// schema: wrong, or a keyword that is not supported.
Grammar::Ref parse_json_schema(const nlohmann::ordered_json& schema, Grammar& grammar);

// Any object, without white space.
Grammar::Ref any_json_object(Grammar& grammar);

}  // namespace tandem
