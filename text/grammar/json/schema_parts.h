// Parts of a JSON schema: found by reference, put together.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "text/grammar/grammar_error.h"

namespace tandem {

// "#", "#/a/b" with ~0, ~1 and %XX as escapes. Null: there is nothing.
const nlohmann::ordered_json* find_schema(const nlohmann::ordered_json& root,
                                          const std::string& pointer);

// A keyword of it that is refused by name; null: there is none.
const char* unsupported_keyword(const nlohmann::ordered_json& schema);

// Whether it has keywords that do more than describe.
bool restricts_values(const nlohmann::ordered_json& schema);

// The types of the values that are written; without `type` those that other keywords are about.
// Throws a GrammarError that names `where`.
std::vector<std::string> written_types(const nlohmann::ordered_json& schema,
                                       const std::string& where);

// What a schema says of a property, or of an item: if it does not name it, what it says of those
// left over.
const nlohmann::ordered_json& schema_of_property(const nlohmann::ordered_json& schema,
                                                 const std::string& name);
const nlohmann::ordered_json& schema_of_item(const nlohmann::ordered_json& schema, size_t index);

// Of the values of which both schemas are true: one of them, or an allOf.
nlohmann::ordered_json both_schemas(const nlohmann::ordered_json& a,
                                    const nlohmann::ordered_json& b);

// The same as one schema, of objects. Throws a GrammarError, which names `where`, if one schema
// cannot say that.
nlohmann::ordered_json merged_schemas(nlohmann::ordered_json a, const nlohmann::ordered_json& b,
                                      const std::string& where);

// With the place in its message.
GrammarError wrong_schema(const std::string& where, const std::string& what);

class SchemaParts {
 public:
  explicit SchemaParts(const nlohmann::ordered_json& root) : root_(root) {}

  const nlohmann::ordered_json& root() const { return root_; }
  // What it refers to. Throws a GrammarError that names `where`.
  const nlohmann::ordered_json& target(const nlohmann::ordered_json& reference,
                                       const std::string& where) const;
  // The same schema without $ref and allOf at its top; false, if it has no value.
  nlohmann::ordered_json flattened(const nlohmann::ordered_json& schema, const std::string& where);

 private:
  static constexpr size_t kMaxBytes = size_t{1} << 20;  // of all that it puts together
  void gather(const nlohmann::ordered_json& schema, const std::string& where, int depth,
              std::vector<nlohmann::ordered_json>& out);

  const nlohmann::ordered_json& root_;
  size_t spent_ = 0;
};

}  // namespace tandem
