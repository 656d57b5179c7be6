#include "text/grammar/json/schema_parts.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/json.h"
#include "base/strings/printable.h"
#include "text/grammar/grammar.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kDescribe = {"title",   "description",  "$defs",    "definitions",
                                  "$schema", "$id",          "$comment", "examples",
                                  "default", "discriminator"};

constexpr std::array kUnsupported = {"not",
                                     "if",
                                     "then",
                                     "else",
                                     "patternProperties",
                                     "propertyNames",
                                     "contains",
                                     "minContains",
                                     "maxContains",
                                     "dependentRequired",
                                     "minProperties",
                                     "maxProperties",
                                     "dependentSchemas",
                                     "dependencies",
                                     "unevaluatedItems",
                                     "unevaluatedProperties",
                                     "multipleOf",
                                     "$dynamicRef",
                                     "$recursiveRef",
                                     "additionalItems"};

bool describes(const std::string& key) {
  return std::find(kDescribe.begin(), kDescribe.end(), key) != kDescribe.end();
}

std::string without_percents(const std::string& text) {
  const auto is_digit = [&](size_t i) {
    return i < text.size() && std::isxdigit(static_cast<unsigned char>(text[i])) != 0;
  };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape = text[i] == '%' && is_digit(i + 1) && is_digit(i + 2);
    out += escape ? static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16)) : text[i];
    if (escape) i += 2;
  }
  return out;
}

bool is_true(const Json& schema) {
  return schema == true || (schema.is_object() && !restricts_values(schema));
}

// properties and additionalProperties of both, if both say something of them.
void merge_properties(const Json& a, const Json& b, Json& out) {
  const auto has = [](const Json& s, const char* key) { return s.contains(key); };
  const auto says = [&](const Json& s) {
    return has(s, "additionalProperties") || (has(s, "properties") && s["properties"].is_object());
  };
  if (!says(a) || !says(b)) return;
  Json all = Json::object();
  for (const Json* one : {&a, &b})
    if (has(*one, "properties") && (*one)["properties"].is_object())
      for (const auto& [name, value] : (*one)["properties"].items())
        if (!all.contains(name))
          all[name] = both_schemas(schema_of_property(a, name), schema_of_property(b, name));
  out["properties"] = std::move(all);
  static const char* kOthers = "additionalProperties";
  if (has(a, kOthers) && has(b, kOthers))
    out[kOthers] = both_schemas(a[kOthers], b[kOthers]);
  else if (has(a, kOthers) || has(b, kOthers))
    out[kOthers] = has(a, kOthers) ? a[kOthers] : b[kOthers];
}

// prefixItems and items of both, if both say something of them.
void merge_items(const Json& a, const Json& b, Json& out) {
  const auto first = [](const Json& s) {
    return s.contains("prefixItems") && s["prefixItems"].is_array() ? s["prefixItems"].size() : 0;
  };
  const auto says = [&](const Json& s) { return first(s) > 0 || s.contains("items"); };
  if (!says(a) || !says(b)) return;
  const size_t count = std::max(first(a), first(b));
  Json list = Json::array();
  for (size_t i = 0; i < count; ++i)
    list.push_back(both_schemas(schema_of_item(a, i), schema_of_item(b, i)));
  if (count > 0) out["prefixItems"] = std::move(list);
  if (a.contains("items") || b.contains("items"))
    out["items"] = both_schemas(schema_of_item(a, count), schema_of_item(b, count));
}

Json as_list(const Json& value) { return value.is_array() ? value : Json::array({value}); }

// Types that both name; integers are numbers.
Json both_types(const Json& a, const Json& b) {
  Json out = Json::array();
  const Json all_a = as_list(a), all_b = as_list(b);
  const auto has = [](const Json& all, const char* type) {
    return std::find(all.begin(), all.end(), type) != all.end();
  };
  for (const Json& type : all_a)
    if (std::find(all_b.begin(), all_b.end(), type) != all_b.end() ||
        (type == "integer" && has(all_b, "number")))
      out.push_back(type);
  if (has(all_a, "number") && has(all_b, "integer") && !has(all_a, "integer"))
    out.push_back("integer");
  return out;
}

// The second value of a keyword into the first. False: one keyword cannot say both.
bool merge_values(Json& a, const Json& b, const std::string& key) {
  static constexpr std::array kLeast = {"minimum", "exclusiveMinimum", "minLength", "minItems"};
  static constexpr std::array kMost = {"maximum", "exclusiveMaximum", "maxLength", "maxItems"};
  const auto among = [&](const auto& keys) {
    return std::find(keys.begin(), keys.end(), key) != keys.end();
  };
  if ((among(kLeast) || among(kMost)) && a.is_number() && b.is_number()) {
    if (among(kLeast) ? a < b : b < a) a = b;
  } else if (key == "required" && a.is_array() && b.is_array()) {
    for (const Json& name : b) a.push_back(name);
  } else if (key == "type") {
    a = both_types(a, b);
  } else if (key == "enum" && a.is_array() && b.is_array()) {
    Json both = Json::array();
    for (const Json& value : a)
      if (std::find(b.begin(), b.end(), value) != b.end()) both.push_back(value);
    a = std::move(both);
  } else {
    return false;
  }
  return true;
}

}  // namespace

const Json* find_schema(const Json& root, const std::string& pointer) {
  if (!pointer.starts_with('#')) return nullptr;
  try {
    const Json::json_pointer at(without_percents(pointer.substr(1)));
    return root.contains(at) ? &root.at(at) : nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

const char* unsupported_keyword(const Json& schema) {
  for (const char* key : kUnsupported)
    if (schema.contains(key)) return key;
  return nullptr;
}

bool restricts_values(const Json& schema) {
  return std::any_of(schema.items().begin(), schema.items().end(),
                     [](const auto& item) { return !describes(item.key()); });
}

std::vector<std::string> written_types(const Json& s, const std::string& where) {
  static const std::vector<std::string> kAll = {"object",  "array",   "string", "number",
                                                "integer", "boolean", "null"};
  if (!s.contains("type")) {
    if (s.contains("properties") || s.contains("required") || s.contains("additionalProperties"))
      return {"object"};
    if (s.contains("items") || s.contains("prefixItems")) return {"array"};
    for (const char* key : {"pattern", "minLength", "maxLength"})
      if (s.contains(key)) return {"string"};
    for (const char* key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
      if (s.contains(key)) return {"number"};
    return {"object", "array", "string", "number", "boolean", "null"};
  }
  const Json& type = s["type"];
  std::vector<std::string> out;
  for (const Json& one : type.is_array() ? type : Json::array({type})) {
    if (!one.is_string() ||
        std::find(kAll.begin(), kAll.end(), one.get<std::string>()) == kAll.end())
      throw wrong_schema(where + "/type", "there is no such type");
    out.push_back(one.get<std::string>());
  }
  return out;
}

const Json& schema_of_property(const Json& schema, const std::string& name) {
  static const Json kAny = true;
  const auto named = schema.find("properties");
  if (named != schema.end() && named->is_object() && named->contains(name)) return (*named)[name];
  const auto others = schema.find("additionalProperties");
  return others != schema.end() ? *others : kAny;
}

const Json& schema_of_item(const Json& schema, size_t index) {
  static const Json kAny = true;
  const auto first = schema.find("prefixItems");
  if (first != schema.end() && first->is_array() && index < first->size()) return (*first)[index];
  const auto others = schema.find("items");
  return others != schema.end() ? *others : kAny;
}

Json both_schemas(const Json& a, const Json& b) {
  if (a == b || is_true(b)) return a;
  if (is_true(a)) return b;
  if (a == false || b == false) return false;
  return {{"allOf", Json::array({a, b})}};
}

Json merged_schemas(Json a, const Json& b, const std::string& where) {
  // Keywords that say what others of the same schema leave over.
  Json parts = Json::object();
  merge_properties(a, b, parts);
  merge_items(a, b, parts);
  for (const auto& [key, value] : b.items()) {
    if (parts.contains(key)) continue;
    if (!a.contains(key) || a[key] == value) {
      a[key] = value;
    } else if (!merge_values(a[key], value, key)) {
      if (!describes(key))
        throw unsupported_grammar("at " + printable(where) + ": a second " + printable(key) +
                                  " is not supported");
    }
  }
  for (const auto& [key, value] : parts.items()) a[key] = value;
  return a;
}

Json SchemaParts::flattened(const Json& schema, const std::string& where) {
  std::vector<Json> parts;
  gather(schema, where, 0, parts);
  Json all = Json::object();
  for (const Json& part : parts) {
    if (part == false) return false;
    all = merged_schemas(std::move(all), part, where);
  }
  return all;
}

void SchemaParts::gather(const Json& schema, const std::string& where, int depth,
                         std::vector<Json>& out) {
  if (depth > kMaxGrammarDepth) throw grammar_explodes("schemas more than 200 deep");
  if (schema.is_boolean()) {
    if (schema == false) out.push_back(schema);
    return;
  }
  if (!schema.is_object()) throw wrong_schema(where, "a schema is an object, true or false");
  Json own = Json::object();
  for (const auto& [key, value] : schema.items())
    if (key != "$ref" && key != "allOf" && !describes(key)) own[key] = value;
  spent_ += json_text(own).size() + 1;
  if (spent_ > kMaxBytes) throw grammar_explodes("schemas put together");
  if (!own.empty()) out.push_back(std::move(own));
  if (schema.contains("$ref")) {
    const std::string at = where + "/$ref";
    gather(target(schema["$ref"], at), at, depth + 1, out);
  }
  if (!schema.contains("allOf")) return;
  if (!schema["allOf"].is_array())
    throw wrong_schema(where + "/allOf", "must be a list of schemas");
  for (size_t i = 0; i < schema["allOf"].size(); ++i)
    gather(schema["allOf"][i], where + "/allOf/" + std::to_string(i), depth + 1, out);
}

const Json& SchemaParts::target(const Json& reference, const std::string& where) const {
  if (!reference.is_string()) throw wrong_schema(where, "must be a text");
  const auto pointer = reference.get<std::string>();
  if (!pointer.starts_with('#'))
    throw unsupported_grammar("at " + printable(where) +
                              ": another document's schema is not supported");
  const Json* found = find_schema(root_, pointer);
  if (found == nullptr) throw wrong_schema(where, "there is no schema " + in_quotes(pointer));
  return *found;
}

GrammarError wrong_schema(const std::string& where, const std::string& what) {
  return wrong_grammar("at " + printable(where) + ": " + what);
}

}  // namespace tandem
