#include "runtime/protocol/json/constraint_reader.h"

#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "runtime/protocol/json/json_fields.h"

namespace tandem {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using proto::Constraint;

std::string schema_of(const json& value, const std::string& name) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() || value.is_boolean()) return json_text(value);
  throw invalid_request(name, "must be a JSON schema, not " + describe(value));
}

void read_choice(const json& value, const std::string& name, Constraint& out) {
  if (!value.is_array())
    throw invalid_request(name, "must be a list of texts, not " + describe(value));
  proto::Texts& choice = *out.mutable_choice();
  for (const json& text : value) choice.add_texts(read_string(text, name));
}

// True: `key` is what one of the constraints is called, and was read.
bool read_kind(const std::string& key, const json& value, const std::string& name,
               Constraint& out) {
  if (key == "regex") {
    out.set_regex(read_string(value, name));
  } else if (key == "choice") {
    read_choice(value, name, out);
  } else if (key == "json") {
    out.set_json_schema(schema_of(value, name));
  } else if (key == "grammar") {
    out.set_grammar(read_string(value, name));
  } else if (key == "json_object") {
    if (!read_bool(value, name)) return false;
    out.set_json_object(true);
  } else {
    return false;
  }
  return true;
}

// OpenAI's.
std::optional<Constraint> read_format(const json& value, const std::string& name) {
  if (!value.is_object() || !value.contains("type") || !value["type"].is_string())
    throw invalid_request(name, "must be an object with a \"type\", not " + describe(value));
  const auto type = value["type"].get<std::string>();
  Constraint out;
  out.set_field(name);
  if (type == "text") return std::nullopt;
  if (type == "json_object") {
    out.set_json_object(true);
    return out;
  }
  if (type != "json_schema")
    throw invalid_request(
        name, "type: expected text, json_object or json_schema, not " + describe(value["type"]));
  const bool nested = value.contains("json_schema") && value["json_schema"].is_object();
  const json& about = nested ? value["json_schema"] : value;
  if (!about.contains("schema")) throw invalid_request(name, "json_schema has no \"schema\"");
  out.set_json_schema(schema_of(about["schema"], name));
  return out;
}

// vLLM's: one constraint by its name, beside settings of how it is followed.
std::optional<Constraint> read_structured(const json& value, const std::string& name) {
  if (!value.is_object()) throw invalid_request(name, "must be an object, not " + describe(value));
  std::optional<Constraint> found;
  for (const auto& [key, inner] : value.items()) {
    if (inner.is_null() || inner == false) continue;
    Constraint out;
    out.set_field(name);
    const bool setting = key == "disable_any_whitespace" || key == "disable_fallback" ||
                         key == "disable_additional_properties" || key == "backend" ||
                         key == "_backend";
    if (setting) continue;
    if (!read_kind(key, inner, name, out))
      throw not_supported(name, key +
                                    " is not built: expected regex, choice, json, json_object "
                                    "or grammar");
    if (found) throw invalid_request(name, "has two constraints");
    found = std::move(out);
  }
  return found;
}

bool is_schema(const std::string& key, const ordered_json& parent, const std::string& parent_key) {
  if (key == "guided_json") return true;
  if (key == "json") return parent_key == "structured_outputs" || parent_key == "guided_decoding";
  if (key != "schema") return false;
  return parent_key == "json_schema" ||
         (parent.contains("type") && parent["type"] == "json_schema");
}

void keep_order(const ordered_json& ordered, const std::string& name, json& value) {
  if (!ordered.is_object() || !value.is_object()) return;
  for (const auto& [key, inner] : ordered.items()) {
    const auto it = value.find(key);
    if (it == value.end()) continue;
    if (is_schema(key, ordered, name) && inner.is_object())
      *it = json_text(inner);
    else
      keep_order(inner, key, *it);
  }
}

}  // namespace

std::optional<Constraint> read_constraint(const json& value, const std::string& name) {
  if (name == "response_format") return read_format(value, name);
  if (name == "structured_outputs" || name == "guided_decoding")
    return read_structured(value, name);
  Constraint out;
  out.set_field(name);
  if (!read_kind(name.substr(name.find('_') + 1), value, name, out))
    throw invalid_request(name, "is no constraint");
  return out;
}

void check_constraint(const Constraint& value, const std::string& name) {
  size_t bytes = value.regex().size() + value.json_schema().size() + value.grammar().size();
  for (const std::string& text : value.choice().texts()) bytes += text.size();
  if (value.choice().texts_size() > kMaxChoices)
    throw invalid_request(name, "may have at most " + std::to_string(kMaxChoices) + " texts, not " +
                                    std::to_string(value.choice().texts_size()));
  if (bytes > kMaxConstraintBytes)
    throw invalid_request(name, "may have at most " + std::to_string(kMaxConstraintBytes) +
                                    " bytes, not " + std::to_string(bytes));
}

void keep_order_of_schemas(std::string_view line, json& value) {
  constexpr std::string_view kNames[] = {"\"guided_json\"", "\"json_schema\"",
                                         "\"structured_outputs\"", "\"guided_decoding\""};
  for (const std::string_view name : kNames)
    if (line.find(name) != std::string_view::npos) {
      keep_order(json_from<ordered_json>(line), {}, value);
      return;
    }
}

}  // namespace tandem
