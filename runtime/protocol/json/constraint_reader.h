// JSON → Constraint: the parameters of vLLM and OpenAI that say what the output has to be. Each
// function throws an InputError that names the parameter.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

inline constexpr size_t kMaxConstraintBytes = size_t{256} << 10;
inline constexpr int kMaxChoices = 10000;

// Of guided_regex, guided_choice, guided_json, guided_grammar, response_format, structured_outputs
// or guided_decoding. Nothing: `value` says that the text may be anything.
std::optional<proto::Constraint> read_constraint(const nlohmann::json& value,
                                                 const std::string& name);

// Bounds of what came over the wire.
void check_constraint(const proto::Constraint& value, const std::string& name);

// Members of objects have no order once they are read; in the schema of a constraint it counts.
// Puts the texts of the schemas in `line` where they stand in `value`, which was read of it.
void keep_order_of_schemas(std::string_view line, nlohmann::json& value);

}  // namespace tandem
