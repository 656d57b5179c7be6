// Whether a JSON value is one of a schema: for the constants of enum and const.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "text/grammar/json/schema_parts.h"

namespace tandem {

class SchemaValues {
 public:
  using Json = nlohmann::ordered_json;

  // Both outlive it, `where` is named in errors.
  SchemaValues(const SchemaParts& parts, const std::string& where) : parts_(parts), where_(where) {}

  // Throws a GrammarError if the schema has keywords that are not supported.
  bool contain(const Json& value, const Json& schema) { return holds(value, schema, 0); }

 private:
  bool holds(const Json& value, const Json& s, int depth);
  bool holds_together(const Json& value, const Json& s, int depth);
  bool text_holds(const Json& value, const Json& s) const;
  bool items_hold(const Json& value, const Json& s, int depth);
  bool properties_hold(const Json& value, const Json& s, int depth);
  bool matches(const std::string& text, const std::string& pattern) const;

  const SchemaParts& parts_;
  const std::string& where_;
  int steps_ = 0;
};

}  // namespace tandem
