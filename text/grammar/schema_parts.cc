#include "text/grammar/schema_parts.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/strings/printable.h"
#include "text/grammar/grammar_error.h"

namespace tandem {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kDescribe = {"title",   "description",  "$defs",    "definitions",
                                  "$schema", "$id",          "$comment", "examples",
                                  "default", "discriminator"};

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

bool restricts_values(const Json& schema) {
  return std::any_of(schema.items().begin(), schema.items().end(),
                     [](const auto& item) { return !describes(item.key()); });
}

Json merged_schemas(Json a, const Json& b, const std::string& where) {
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key) || a[key] == value) {
      a[key] = value;
    } else if (key == "required" && value.is_array() && a[key].is_array()) {
      for (const Json& name : value) a[key].push_back(name);
    } else if (key == "properties" && value.is_object() && a[key].is_object()) {
      a[key] = merged_schemas(a[key], value, where + "/properties");
    } else if (!describes(key)) {
      throw unsupported_grammar("at " + printable(where) + ": a second " + printable(key) +
                                " is not supported");
    }
  }
  return a;
}

}  // namespace tandem
