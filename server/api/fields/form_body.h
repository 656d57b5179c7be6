// Bodies that are JSON or a form (application/x-www-form-urlencoded), as clients of translators
// send them.
#pragma once

#include <nlohmann/json.hpp>
#include <span>

#include "server/http/http.h"

namespace tandem::server {

// What the fields of a form are; those that are not named are numbers or booleans, or else texts.
struct FormFields {
  std::span<const char* const> flags;  // "1", "0", "true", "false"
  std::span<const char* const> texts;
  std::span<const char* const> lists;  // of texts; may stand there several times
};

// The body as an object. Throws InputError: malformed, not UTF-8, a field twice, no memory for it,
// a form of another site's page.
nlohmann::json parse_form_or_json(const HttpRequest& request, const FormFields& fields);

}  // namespace tandem::server
