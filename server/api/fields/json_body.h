// JSON in and out of HTTP bodies.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "server/http/http.h"

namespace tandem::server {

using Json = nlohmann::ordered_json;

// The body as an object. Throws InputError: malformed, too deep, not UTF-8, another type.
nlohmann::json parse_body(const HttpRequest& request);

// Take a field out of the object: absent and null are nothing. Throw InputError naming it.
std::optional<bool> take_bool(nlohmann::json& body, const char* name);
std::optional<int64_t> take_int(nlohmann::json& body, const char* name, int64_t least,
                                int64_t most);
std::optional<double> take_number(nlohmann::json& body, const char* name, double least,
                                  double most);
std::optional<std::string> take_string(nlohmann::json& body, const char* name);
// The value, whatever it is; nothing if it is absent or null.
std::optional<nlohmann::json> take(nlohmann::json& body, const char* name);
// A list of integers that has some.
bool is_token_ids(const nlohmann::json& value);
// A field that asks for what this server does not do.
struct RefusedField {
  const char* name;
  const char* off;  // a JSON list: the values besides null that ask for nothing
  const char* why;
};
// Takes them out of the object. Throws InputError (kNotSupported) naming one that asks for
// something.
void refuse_fields(nlohmann::json& body, std::span<const RefusedField> fields);
// Throws InputError if unknown fields are left.
void refuse_rest(const nlohmann::json& body);

}  // namespace tandem::server
