#include "text/grammar/json/json_schema.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/strings/printable.h"
#include "text/grammar/grammar_error.h"
#include "text/grammar/json/json_formats.h"
#include "text/grammar/json/json_texts.h"
#include "text/grammar/json/number_ranges.h"
#include "text/grammar/json/one_of.h"
#include "text/grammar/json/schema_parts.h"
#include "text/grammar/json/schema_values.h"
#include "text/grammar/regex_parser.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;
using Ref = Grammar::Ref;

class SchemaParser {
 public:
  SchemaParser(const Json& root, Grammar& grammar) : g_(grammar), texts_(grammar), parts_(root) {}

  Ref parse(const Json& whole) {
    const Ref all = schema(whole, "#", 0);
    while (!waiting_.empty()) {
      const Waiting one = std::move(waiting_.front());
      waiting_.pop_front();
      g_.define(one.rule, one.pointed_at != nullptr
                              ? schema(*one.pointed_at, one.where, 0)
                              : schema(parts_.flattened(one.combined, one.where), one.where, 0));
    }
    return all;
  }

 private:
  [[noreturn]] static void fail(const std::string& where, const std::string& what) {
    throw wrong_schema(where, what);
  }
  [[noreturn]] static void refuse(const std::string& where, const std::string& what) {
    throw unsupported_grammar("at " + printable(where) + ": " + what + " is not supported");
  }

  Ref schema(const Json& s, const std::string& where, int depth) {
    if (depth > kMaxGrammarDepth) throw grammar_explodes("schemas more than 200 deep");
    if (s.is_boolean()) return s.get<bool>() ? texts_.value() : g_.impossible();
    if (!s.is_object()) fail(where, "a schema is an object, true or false");
    if (const char* key = unsupported_keyword(s)) refuse(where, key);
    if (s.contains("$ref") || s.contains("allOf")) return combined(s, where);
    for (const char* key : {"anyOf", "oneOf"})
      if (s.contains(key)) return any_of(s, key, where, depth);
    if (s.contains("const")) return constants(s, Json::array({s["const"]}), where);
    if (s.contains("enum")) {
      if (!s["enum"].is_array()) fail(where + "/enum", "must be a list");
      return constants(s, s["enum"], where);
    }
    std::vector<Ref> ways;
    for (const std::string& type : written_types(s, where))
      ways.push_back(typed(s, type, where, depth));
    return g_.alternatives(std::move(ways));
  }

  // As rules of their own, so that schemas may come back to themselves.
  Ref combined(const Json& s, const std::string& where) {
    Json own = s;
    for (const char* key : {"$defs", "definitions"}) own.erase(key);
    Json beside = own;
    beside.erase("$ref");
    const bool alone = s.contains("$ref") && !restricts_values(beside);
    const Json* target = alone ? &parts_.target(s["$ref"], where + "/$ref") : nullptr;
    const auto [it, is_new] = rules_.emplace(alone ? json_text(s["$ref"]) : json_text(own), 0);
    if (!is_new) return g_.rule(it->second);
    it->second = g_.add_rule();
    waiting_.push_back({it->second, where, target, alone ? Json() : std::move(own)});
    if (alone) waiting_.back().where = s["$ref"].get<std::string>();
    return g_.rule(it->second);
  }

  Ref any_of(const Json& s, const char* key, const std::string& where, int depth) {
    Json rest = s;
    for (const char* name : {key, "$defs", "definitions"}) rest.erase(name);
    const std::string here = where + "/" + key;
    if (!s[key].is_array()) fail(here, "must be a list of schemas");
    const std::string tag = tag_of(s);
    std::vector<Json> all;
    for (size_t i = 0; i < s[key].size(); ++i) {
      Json one = s[key][i];
      if (!one.is_object() && !one.is_boolean()) fail(here, "must be a list of schemas");
      if (!tag.empty()) one = both_schemas(one, {{"required", {tag}}});
      all.push_back(both_schemas(rest, one));
    }
    if (std::string(key) == "oneOf") check_apart(all, here);
    std::vector<Ref> ways;
    for (size_t i = 0; i < all.size(); ++i)
      ways.push_back(schema(all[i], here + "/" + std::to_string(i), depth + 1));
    return g_.alternatives(std::move(ways));
  }

  // The property that tells which of the schemas is meant; OpenAPI says that it is always there.
  static std::string tag_of(const Json& s) {
    const auto it = s.find("discriminator");
    if (it == s.end() || !it->is_object()) return {};
    const auto name = it->find("propertyName");
    return name != it->end() && name->is_string() ? name->get<std::string>() : std::string();
  }

  void check_apart(const std::vector<Json>& all, const std::string& where) {
    SchemaParts parts(parts_.root());  // what is compared is not written
    const auto both = first_overlap(all, parts, where);
    if (both)
      refuse(where, "a value that may match both " + std::to_string(both->first) + " and " +
                        std::to_string(both->second) + " (anyOf allows it)");
  }

  Ref constants(const Json& s, const Json& values, const std::string& where) {
    if (s.contains("type")) written_types(s, where);  // there may be no such type
    SchemaValues all(parts_, where);
    std::vector<Ref> ways;
    for (const Json& value : values)
      if (all.contain(value, s)) ways.push_back(texts_.constant(value));
    return g_.alternatives(std::move(ways));
  }

  Ref typed(const Json& s, const std::string& type, const std::string& where, int depth) {
    if (type == "null") return g_.text("null");
    if (type == "boolean") return g_.alternatives({g_.text("true"), g_.text("false")});
    if (type == "string") return string(s, where);
    if (type == "integer") return integers(whole(range(s, where)), g_);
    if (type == "number") return numbers(range(s, where), g_);
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
      if (s.contains("format") && s["format"].is_string() &&
          pattern_of_format(s["format"].get<std::string>()))
        refuse(where, "a format beside a pattern");
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

  static RealRange range(const Json& s, const std::string& where) {
    RealRange out;
    const auto bound = [&](const char* key, bool is_least, bool open) {
      if (!s.contains(key)) return;
      const Json& value = s[key];
      if (!value.is_number()) fail(where + "/" + key, "must be a number");
      const auto number = value.get<double>();
      if (std::abs(number) > 9e15) refuse(where, std::string(key) + " beyond 9e15");
      auto& side = is_least ? out.least : out.most;
      auto& side_open = is_least ? out.least_open : out.most_open;
      if (side && (is_least ? number < *side : number > *side)) return;
      side_open = open || (side && *side == number && side_open);
      side = number;
    };
    bound("minimum", true, false);
    bound("exclusiveMinimum", true, true);
    bound("maximum", false, false);
    bound("exclusiveMaximum", false, true);
    return out;
  }

  static NumberRange whole(const RealRange& range) {
    NumberRange out;
    if (range.least)
      out.least = static_cast<int64_t>(range.least_open ? std::floor(*range.least) + 1
                                                        : std::ceil(*range.least));
    if (range.most)
      out.most = static_cast<int64_t>(range.most_open ? std::ceil(*range.most) - 1
                                                      : std::floor(*range.most));
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
    const auto most = count(s, "maxItems", where);
    if (most && static_cast<size_t>(*most) < first.size()) first.resize(static_cast<size_t>(*most));
    const bool no_more = has_first && !s.contains("items") &&
                         least.value_or(0) <= static_cast<int64_t>(first.size());
    const Ref item = no_more               ? g_.impossible()
                     : s.contains("items") ? schema(s["items"], where + "/items", depth + 1)
                                           : texts_.value();
    return texts_.list(std::move(first), item, least.value_or(0), most);
  }

  struct Property {
    std::string name;
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
      out.push_back(
          {name, g_.sequence({texts_.constant(name), g_.character(U':'), value}), needed});
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
      std::vector<std::string> known;
      for (const Property& one : all) known.push_back(one.name);
      const Ref name = all.empty() ? texts_.string(0, std::nullopt) : texts_.string_but(known);
      other = g_.sequence({name, g_.character(U':'), value});
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

  struct Waiting {
    int rule;
    std::string where;
    const Json* pointed_at;  // null: it is `combined`
    Json combined;
  };

  Grammar& g_;
  JsonTexts texts_;
  SchemaParts parts_;
  std::map<std::string, int> rules_;  // by what they refer to, or by their text
  std::deque<Waiting> waiting_;       // of them those without a body
};

}  // namespace

Ref parse_json_schema(const Json& schema, Grammar& grammar) {
  return SchemaParser(schema, grammar).parse(schema);
}

Ref any_json_object(Grammar& grammar) { return JsonTexts(grammar).object(); }

}  // namespace tandem
