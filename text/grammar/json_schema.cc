#include "text/grammar/json_schema.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/strings/printable.h"
#include "text/grammar/grammar_error.h"
#include "text/grammar/json_formats.h"
#include "text/grammar/json_texts.h"
#include "text/grammar/number_ranges.h"
#include "text/grammar/regex_parser.h"
#include "text/grammar/schema_parts.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
using Ref = Grammar::Ref;

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

class SchemaParser {
 public:
  SchemaParser(const Json& root, Grammar& grammar) : root_(root), g_(grammar), texts_(grammar) {}

  Ref parse() {
    const Ref all = schema(root_, "#", 0);
    while (!waiting_.empty()) {
      const auto [pointer, rule] = waiting_.back();
      waiting_.pop_back();
      g_.define(rule, schema(*find_schema(root_, pointer), pointer, 0));
    }
    return all;
  }

 private:
  [[noreturn]] static void fail(const std::string& where, const std::string& what) {
    throw wrong_grammar("at " + printable(where) + ": " + what);
  }
  [[noreturn]] static void refuse(const std::string& where, const std::string& what) {
    throw unsupported_grammar("at " + printable(where) + ": " + what + " is not supported");
  }

  Ref schema(const Json& s, const std::string& where, int depth) {
    if (depth > kMaxGrammarDepth) throw grammar_explodes("schemas more than 200 deep");
    if (s.is_boolean()) return s.get<bool>() ? texts_.value() : g_.impossible();
    if (!s.is_object()) fail(where, "a schema is an object, true or false");
    for (const char* key : kUnsupported)
      if (s.contains(key)) refuse(where, key);
    if (s.contains("$ref")) return reference(s, where);
    if (s.contains("allOf")) return all_of(s, where, depth);
    for (const char* key : {"anyOf", "oneOf"})
      if (s.contains(key)) return any_of(s, key, where, depth);
    if (s.contains("const")) return constants(s, Json::array({s["const"]}), where);
    if (s.contains("enum")) {
      if (!s["enum"].is_array()) fail(where + "/enum", "must be a list");
      return constants(s, s["enum"], where);
    }
    std::vector<Ref> ways;
    for (const std::string& type : types(s, where)) ways.push_back(typed(s, type, where, depth));
    return g_.alternatives(std::move(ways));
  }

  // Beside it may stand what describes, nothing that restricts.
  static void check_alone(const Json& s, const char* key, const std::string& where) {
    static constexpr std::array kRestrict = {"$ref",
                                             "allOf",
                                             "anyOf",
                                             "oneOf",
                                             "const",
                                             "enum",
                                             "type",
                                             "properties",
                                             "required",
                                             "items",
                                             "prefixItems",
                                             "additionalProperties",
                                             "minItems",
                                             "maxItems",
                                             "minLength",
                                             "maxLength",
                                             "pattern",
                                             "minimum",
                                             "maximum",
                                             "exclusiveMinimum",
                                             "exclusiveMaximum"};
    for (const char* other : kRestrict)
      if (std::string(other) != key && s.contains(other))
        refuse(where, std::string(other) + " beside " + key);
  }

  Ref reference(const Json& s, const std::string& where) {
    check_alone(s, "$ref", where);
    if (!s["$ref"].is_string()) fail(where + "/$ref", "must be a text");
    const auto pointer = s["$ref"].get<std::string>();
    const auto it = references_.find(pointer);
    if (it != references_.end()) return g_.rule(it->second);
    if (!pointer.starts_with('#')) refuse(where + "/$ref", "another document's schema");
    if (find_schema(root_, pointer) == nullptr)
      fail(where + "/$ref", "there is no schema " + in_quotes(pointer));
    const int rule = g_.add_rule();
    references_.emplace(pointer, rule);
    waiting_.emplace_back(pointer, rule);
    return g_.rule(rule);
  }

  Ref any_of(const Json& s, const char* key, const std::string& where, int depth) {
    Json rest = s;
    for (const char* name : {key, "$defs", "definitions"}) rest.erase(name);
    const std::string here = where + "/" + key;
    if (!s[key].is_array()) fail(here, "must be a list of schemas");
    std::vector<Ref> ways;
    for (size_t i = 0; i < s[key].size(); ++i) {
      const std::string at = here + "/" + std::to_string(i);
      const Json& one = s[key][i];
      const bool alone = !restricts_values(rest);
      if (!alone && !one.is_object()) fail(at, "must be an object beside other keywords");
      ways.push_back(alone ? schema(one, at, depth + 1)
                           : schema(merged_schemas(rest, one, at), at, depth + 1));
    }
    return g_.alternatives(std::move(ways));
  }

  Ref all_of(const Json& s, const std::string& where, int depth) {
    Json rest = s;
    rest.erase("allOf");
    if (!s["allOf"].is_array()) fail(where + "/allOf", "must be a list of schemas");
    for (size_t i = 0; i < s["allOf"].size(); ++i) {
      const std::string at = where + "/allOf/" + std::to_string(i);
      Json one = s["allOf"][i];
      if (one.is_object() && one.contains("$ref") && restricts_values(rest))
        one = resolved(one, at);
      if (!one.is_object()) refuse(at, "true or false in allOf");
      rest = merged_schemas(rest, one, at);
    }
    return schema(rest, where, depth + 1);
  }

  Json resolved(const Json& s, const std::string& where) {
    check_alone(s, "$ref", where);
    const Json* target =
        s["$ref"].is_string() ? find_schema(root_, s["$ref"].get<std::string>()) : nullptr;
    if (target == nullptr) fail(where + "/$ref", "there is no such schema");
    return *target;
  }

  Ref constants(const Json& s, const Json& values, const std::string& where) {
    std::vector<Ref> ways;
    const auto wanted = types(s, where);
    for (const Json& value : values)
      if (!s.contains("type") || std::any_of(wanted.begin(), wanted.end(),
                                             [&](const auto& type) { return is_of(value, type); }))
        ways.push_back(texts_.constant(value));
    return g_.alternatives(std::move(ways));
  }

  static bool is_of(const Json& value, const std::string& type) {
    if (type == "integer") return value.is_number_integer();
    if (type == "number") return value.is_number();
    return type == value.type_name();
  }

  static std::vector<std::string> types(const Json& s, const std::string& where) {
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
        fail(where + "/type", "there is no such type");
      out.push_back(one.get<std::string>());
    }
    return out;
  }

  Ref typed(const Json& s, const std::string& type, const std::string& where, int depth) {
    if (type == "null") return g_.text("null");
    if (type == "boolean") return g_.alternatives({g_.text("true"), g_.text("false")});
    if (type == "string") return string(s, where);
    if (type == "integer") return integers(range(s, where, /*whole=*/true), g_);
    if (type == "number") return numbers(range(s, where, /*whole=*/false), g_);
    if (type == "array") return array(s, where, depth);
    return object(s, where, depth);
  }

  static std::optional<int64_t> count(const Json& s, const char* key, const std::string& where) {
    if (!s.contains(key)) return std::nullopt;
    const Json& value = s[key];
    const double number = value.is_number() ? value.get<double>() : -1;
    if (number < 0 || number != std::floor(number))
      fail(where + "/" + key, "must be a whole number from 0");
    if (number > static_cast<double>(kMaxRepeats))
      throw grammar_explodes(std::string(key) + " above " + std::to_string(kMaxRepeats));
    return static_cast<int64_t>(number);
  }

  Ref string(const Json& s, const std::string& where) {
    const auto least = count(s, "minLength", where), most = count(s, "maxLength", where);
    std::optional<std::string> pattern;
    if (s.contains("pattern")) {
      if (!s["pattern"].is_string()) fail(where + "/pattern", "must be a text");
      pattern = s["pattern"].get<std::string>();
    } else if (s.contains("format") && s["format"].is_string()) {
      pattern = pattern_of_format(s["format"].get<std::string>());
    }
    if (!pattern) return texts_.string(least.value_or(0), most);
    if (least || most) refuse(where, "minLength or maxLength beside a pattern or a format");
    const Ref around = g_.repeat(texts_.character(), 0, std::nullopt);
    try {
      return texts_.quoted(parse_regex(*pattern, g_, {JsonTexts::written, around}));
    } catch (const GrammarError& error) {
      throw GrammarError(error.kind(), "at " + printable(where) + "/pattern: " + error.what());
    }
  }

  static NumberRange range(const Json& s, const std::string& where, bool whole) {
    NumberRange out;
    const auto bound = [&](const char* key, bool is_least, bool open) {
      if (!s.contains(key)) return;
      const Json& value = s[key];
      if (!value.is_number()) fail(where + "/" + key, "must be a number");
      const auto number = value.get<double>();
      const bool integral = number == std::floor(number);
      if (!whole && (!integral || open))
        refuse(where, std::string(key) + " of numbers with a fraction");
      if (std::abs(number) > 9e15) refuse(where, std::string(key) + " beyond 9e15");
      auto at = static_cast<int64_t>(is_least ? std::ceil(number) : std::floor(number));
      if (open && integral) at += is_least ? 1 : -1;
      auto& side = is_least ? out.least : out.most;
      side = !side ? at : is_least ? std::max(*side, at) : std::min(*side, at);
    };
    bound("minimum", true, false);
    bound("exclusiveMinimum", true, true);
    bound("maximum", false, false);
    bound("exclusiveMaximum", false, true);
    return out;
  }

  Ref array(const Json& s, const std::string& where, int depth) {
    if (s.contains("uniqueItems") && s["uniqueItems"] != false) refuse(where, "uniqueItems");
    std::vector<Ref> first;
    const bool has_first = s.contains("prefixItems");
    if (has_first) {
      if (!s["prefixItems"].is_array()) fail(where + "/prefixItems", "must be a list of schemas");
      for (size_t i = 0; i < s["prefixItems"].size(); ++i)
        first.push_back(
            schema(s["prefixItems"][i], where + "/prefixItems/" + std::to_string(i), depth + 1));
    }
    const auto least = count(s, "minItems", where);
    auto most = count(s, "maxItems", where);
    const bool no_more = has_first && !s.contains("items");
    const Ref item = no_more               ? g_.impossible()
                     : s.contains("items") ? schema(s["items"], where + "/items", depth + 1)
                                           : texts_.value();
    return texts_.list(std::move(first), item, least.value_or(0), most);
  }

  struct Property {
    Ref text;  // "name":value
    bool required;
  };

  std::vector<Property> properties(const Json& s, const std::string& where, int depth) {
    std::vector<Property> out;
    std::vector<std::string> required;
    if (s.contains("required")) {
      if (!s["required"].is_array()) fail(where + "/required", "must be a list of names");
      for (const Json& name : s["required"]) {
        if (!name.is_string()) fail(where + "/required", "must be a list of names");
        required.push_back(name.get<std::string>());
      }
    }
    const Json none = Json::object();
    const Json& all = s.contains("properties") ? s["properties"] : none;
    if (!all.is_object()) fail(where + "/properties", "must be an object");
    const auto add = [&](const std::string& name, Ref value, bool needed) {
      out.push_back({g_.sequence({texts_.constant(name), g_.character(U':'), value}), needed});
    };
    for (const auto& [name, value] : all.items()) {
      const auto it = std::find(required.begin(), required.end(), name);
      const bool needed = it != required.end();
      required.erase(std::remove(required.begin(), required.end(), name), required.end());
      add(name, schema(value, where + "/properties/" + name, depth + 1), needed);
    }
    // Those that are required but not described.
    std::sort(required.begin(), required.end());
    required.erase(std::unique(required.begin(), required.end()), required.end());
    for (const std::string& name : required) {
      const bool described = s.contains("additionalProperties");
      add(name,
          described ? schema(s["additionalProperties"], where + "/additionalProperties", depth + 1)
                    : texts_.value(),
          true);
    }
    return out;
  }

  Ref object(const Json& s, const std::string& where, int depth) {
    if (!s.contains("properties") && !s.contains("required") && !s.contains("additionalProperties"))
      return texts_.object();
    const std::vector<Property> all = properties(s, where, depth);
    Ref others = g_.nothing(), other = g_.impossible();
    if (s.contains("additionalProperties") && s["additionalProperties"] != false) {
      const Ref value =
          schema(s["additionalProperties"], where + "/additionalProperties", depth + 1);
      other = g_.sequence({texts_.string(0, std::nullopt), g_.character(U':'), value});
      others = g_.repeat(g_.sequence({g_.character(U','), other}), 0, std::nullopt);
    }
    return braces(all, other, others);
  }

  // A rule for what may follow each property, with the closing brace: so what many orders share is
  // there once. `first`: of the rules before which nothing was written yet.
  Ref braces(const std::vector<Property>& all, Ref other, Ref others) {
    const Ref brace = g_.character(U'}');
    Ref rest = g_.sequence({others, brace});
    Ref first = g_.alternatives({g_.sequence({other, others, brace}), brace});
    for (size_t i = all.size(); i-- > 0;) {
      const int with = as_rule(all[i].text);
      const int behind = as_rule(rest);
      std::vector<Ref> rests{g_.sequence({g_.character(U','), g_.rule(with), g_.rule(behind)})};
      std::vector<Ref> firsts{g_.sequence({g_.rule(with), g_.rule(behind)})};
      if (!all[i].required) {
        rests.push_back(g_.rule(behind));
        firsts.push_back(first);
      }
      rest = g_.alternatives(std::move(rests));
      first = g_.rule(as_rule(g_.alternatives(std::move(firsts))));
    }
    return g_.rule(as_rule(g_.sequence({g_.character(U'{'), first})));
  }

  int as_rule(Ref body) {
    const int rule = g_.add_rule();
    g_.define(rule, body);
    return rule;
  }

  const Json& root_;
  Grammar& g_;
  JsonTexts texts_;
  std::map<std::string, int> references_;             // rules by what they refer to
  std::vector<std::pair<std::string, int>> waiting_;  // of them those without a body
};

}  // namespace

Ref parse_json_schema(const Json& schema, Grammar& grammar) {
  return SchemaParser(schema, grammar).parse();
}

Ref any_json_object(Grammar& grammar) { return JsonTexts(grammar).object(); }

}  // namespace tandem
