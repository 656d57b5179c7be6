#include "text/grammar/json/schema_values.h"

#include <algorithm>
#include <cmath>

#include "base/strings/code_points.h"
#include "base/strings/printable.h"
#include "text/grammar/grammar.h"
#include "text/grammar/grammar_program.h"
#include "text/grammar/json/json_formats.h"
#include "text/grammar/json/schema_bounds.h"
#include "text/grammar/recogniser.h"
#include "text/grammar/regex_parser.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kMaxChecks = 100'000;          // of all values of a constant
constexpr int64_t kMaxMatching = 1'000'000;  // steps of one pattern

bool has_type(const Json& value, const Json& type) {
  if (type == "integer" && value.is_number_float())
    return value.get<double>() == std::floor(value.get<double>());
  if (type == "integer") return value.is_number_integer();
  if (type == "number") return value.is_number();
  return type == value.type_name();
}

}  // namespace

bool SchemaValues::holds(const Json& value, const Json& s, int depth) {
  if (++steps_ > kMaxChecks) throw grammar_explodes("constants beside other keywords");
  if (s.is_boolean()) return s.get<bool>();
  if (!s.is_object()) throw wrong_schema(where_, "a schema is an object, true or false");
  if (const char* key = unsupported_keyword(s))
    throw unsupported_grammar("at " + printable(where_) + ": " + key + " is not supported");
  if (depth > kMaxGrammarDepth) return false;  // refers to itself and says nothing
  if (!holds_together(value, s, depth)) return false;
  if (s.contains("const") && s["const"] != value) return false;
  if (s.contains("enum") && std::ranges::find(s["enum"], value) == s["enum"].end()) return false;
  if (s.contains("type")) {
    const Json& type = s["type"];
    const auto fits = [&](const Json& one) { return has_type(value, one); };
    if (type.is_array() ? std::ranges::none_of(type, fits) : !fits(type)) return false;
  }
  if (value.is_number()) return SchemaBounds::of_numbers(s).contain(value.get<double>());
  if (value.is_string()) return text_holds(value, s);
  if (value.is_array()) return items_hold(value, s, depth);
  return !value.is_object() || properties_hold(value, s, depth);
}

// $ref, allOf, anyOf and oneOf.
bool SchemaValues::holds_together(const Json& value, const Json& s, int depth) {
  if (s.contains("$ref") && !holds(value, parts_.target(s["$ref"], where_), depth + 1))
    return false;
  const auto holds_there = [&](const Json& one) { return holds(value, one, depth + 1); };
  if (s.contains("allOf") && !std::ranges::all_of(s["allOf"], holds_there)) return false;
  if (s.contains("anyOf") && std::ranges::none_of(s["anyOf"], holds_there)) return false;
  return !s.contains("oneOf") || std::ranges::count_if(s["oneOf"], holds_there) == 1;
}

bool SchemaValues::text_holds(const Json& value, const Json& s) const {
  const auto& text = value.get_ref<const std::string&>();
  const auto length = static_cast<double>(count_code_points(text));
  if (!SchemaBounds::of_counts(s, "minLength", "maxLength").contain(length)) return false;
  if (s.contains("pattern") && s["pattern"].is_string() &&
      !matches(text, s["pattern"].get<std::string>()))
    return false;
  if (!s.contains("format") || !s["format"].is_string()) return true;
  const auto pattern = pattern_of_format(s["format"].get<std::string>());
  return !pattern || matches(text, *pattern);
}

bool SchemaValues::matches(const std::string& text, const std::string& pattern) const {
  Grammar grammar;
  const Grammar::Ref around = grammar.repeat(grammar.characters(all_characters()), 0, std::nullopt);
  grammar.set_root(parse_regex(pattern, grammar, {{}, around}));
  const GrammarProgram program(grammar, nullptr);
  if (!program.place(program.start()).completes) return false;
  Recogniser recogniser(program);
  recogniser.set_budget(kMaxMatching);
  recogniser.clear();
  Recogniser::State state = recogniser.start();
  for (const char byte : text)
    if (state != Recogniser::kDead) state = recogniser.next(state, static_cast<uint8_t>(byte));
  return state != Recogniser::kDead && recogniser.accepts(state);
}

bool SchemaValues::items_hold(const Json& value, const Json& s, int depth) {
  if (s.contains("uniqueItems") && s["uniqueItems"] != false)
    throw unsupported_grammar("at " + printable(where_) + ": uniqueItems is not supported");
  const auto count = static_cast<double>(value.size());
  if (!SchemaBounds::of_counts(s, "minItems", "maxItems").contain(count)) return false;
  for (size_t i = 0; i < value.size(); ++i)
    if (!holds(value[i], schema_of_item(s, i), depth + 1)) return false;
  return true;
}

bool SchemaValues::properties_hold(const Json& value, const Json& s, int depth) {
  if (s.contains("required"))
    for (const Json& name : s["required"])
      if (!name.is_string() || !value.contains(name.get<std::string>())) return false;
  for (const auto& [name, one] : value.items())
    if (!holds(one, schema_of_property(s, name), depth + 1)) return false;
  return true;
}

}  // namespace tandem
