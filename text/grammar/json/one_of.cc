#include "text/grammar/json/one_of.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "text/grammar/json/schema_bounds.h"
#include "text/grammar/json/schema_values.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kMaxLevels = 8;             // deeper in, nothing is plain to see
constexpr int kMaxComparisons = 400'000;  // of one oneOf

const Json& part_of(const Json& schema, const char* key) {
  static const Json kNone;
  const auto it = schema.find(key);
  return it == schema.end() ? kNone : *it;
}

class Comparison {
 public:
  Comparison(SchemaParts& parts, const std::string& where) : parts_(parts), where_(where) {}

  bool apart(const Json& one, const Json& two, int depth) {
    if (one == false || two == false) return true;
    if (depth > kMaxLevels || ++steps_ > kMaxComparisons || !one.is_object() || !two.is_object())
      return false;
    if (is_put_together(one)) return apart(parts_.flattened(one, where_), two, depth + 1);
    if (is_put_together(two)) return apart(one, parts_.flattened(two, where_), depth + 1);
    const Json &a = one, &b = two;
    for (const char* key : {"anyOf", "oneOf"}) {
      if (a.contains(key))
        if (all_of_list(a, key,
                        [&](const Json& way) { return apart(within(a, key, way), b, depth + 1); }))
          return true;
      if (b.contains(key))
        if (all_of_list(b, key, [&](const Json& way) { return apart(a, way, depth + 1); }))
          return true;
    }
    const std::vector<Json> values_a = constants(a), values_b = constants(b);
    if (!values_a.empty()) return none_is(values_a, b);
    if (!values_b.empty()) return none_is(values_b, a);
    for (const std::string& type : written_types(a, ""))
      if (shares(type, types(b)) && !apart_of(type, a, b, depth)) return false;
    return true;
  }

 private:
  template <class Apart>
  static bool all_of_list(const Json& s, const char* key, const Apart& apart) {
    return s[key].is_array() && std::ranges::all_of(s[key], apart);
  }

  static bool is_put_together(const Json& s) { return s.contains("$ref") || s.contains("allOf"); }

  // Such a way with all that stands beside it, which says what is written too.
  static Json within(const Json& s, const char* key, const Json& way) {
    Json rest = s;
    rest.erase(key);
    return both_schemas(rest, way);
  }

  static std::vector<Json> constants(const Json& s) {
    if (s.contains("const")) return {s["const"]};
    const Json& all = part_of(s, "enum");
    return all.is_array() ? std::vector<Json>(all.begin(), all.end()) : std::vector<Json>();
  }

  bool none_is(const std::vector<Json>& values, const Json& schema) {
    SchemaValues all(parts_, where_);
    return std::ranges::none_of(values, [&](const Json& v) { return all.contain(v, schema); });
  }

  static std::vector<std::string> types(const Json& s) {
    static const std::vector<std::string> kAll = {"object", "array",   "string",
                                                  "number", "boolean", "null"};
    std::vector<std::string> out;
    const Json& type = part_of(s, "type");
    for (const Json& one : type.is_array() ? type : Json::array({type}))
      if (one.is_string()) out.push_back(one.get<std::string>());
    return s.contains("type") ? out : kAll;
  }

  static bool shares(const std::string& type, const std::vector<std::string>& others) {
    const bool number = type == "integer" || type == "number";
    return std::ranges::any_of(others, [&](const std::string& other) {
      return type == other || (number && (other == "integer" || other == "number"));
    });
  }

  bool apart_of(const std::string& type, const Json& a, const Json& b, int depth) {
    if (type == "string")
      return SchemaBounds::of_counts(a, "minLength", "maxLength")
          .apart(SchemaBounds::of_counts(b, "minLength", "maxLength"));
    if (type == "integer" || type == "number")
      return SchemaBounds::of_numbers(a).apart(SchemaBounds::of_numbers(b));
    if (type == "array") return apart_arrays(a, b, depth);
    return type == "object" && apart_objects(a, b, depth);
  }

  bool apart_arrays(const Json& a, const Json& b, int depth) {
    const Json& first_a = part_of(a, "prefixItems");
    SchemaBounds count = SchemaBounds::of_counts(a, "minItems", "maxItems");
    if (first_a.is_array())  // all of them are written
      count.least =
          std::max(count.least, std::min(count.most, static_cast<double>(first_a.size())));
    if (count.apart(SchemaBounds::of_counts(b, "minItems", "maxItems"))) return true;
    for (size_t i = 0; i < static_cast<size_t>(std::min(count.least, 16.0)); ++i)
      if (apart(schema_of_item(a, i), schema_of_item(b, i), depth + 1)) return true;
    return false;
  }

  static std::set<std::string> required(const Json& s) {
    std::set<std::string> out;
    for (const Json& name : part_of(s, "required"))
      if (name.is_string()) out.insert(name.get<std::string>());
    return out;
  }
  bool apart_objects(const Json& a, const Json& b, int depth) {
    const std::set<std::string> has = required(a);
    for (const std::string& name : has)
      if (apart(schema_of_property(a, name), schema_of_property(b, name), depth + 1)) return true;
    // Without additionalProperties, and with some property named, no others are written.
    const bool closed = a.contains("properties") || !has.empty();
    if (!closed || (a.contains("additionalProperties") && a["additionalProperties"] != false))
      return false;
    const Json& named = part_of(a, "properties");
    return std::ranges::any_of(required(b), [&](const std::string& name) {
      return !has.contains(name) && !(named.is_object() && named.contains(name));
    });
  }

  SchemaParts& parts_;
  const std::string& where_;
  int steps_ = 0;
};

}  // namespace

std::optional<std::pair<size_t, size_t>> first_overlap(std::span<const Json> schemas,
                                                       SchemaParts& parts,
                                                       const std::string& where) {
  std::vector<Json> flat;
  for (const Json& schema : schemas) flat.push_back(parts.flattened(schema, where));
  Comparison comparison(parts, where);
  for (size_t i = 0; i < flat.size(); ++i)
    for (size_t j = i + 1; j < flat.size(); ++j)
      if (!comparison.apart(flat[i], flat[j], 0) || !comparison.apart(flat[j], flat[i], 0))
        return std::pair(i, j);
  return std::nullopt;
}

}  // namespace tandem
