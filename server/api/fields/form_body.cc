#include "server/api/fields/form_body.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/strings/percent.h"
#include "base/strings/utf8.h"
#include "server/api/cors.h"
#include "server/api/fields/json_body.h"
#include "server/http/body_budget.h"

namespace tandem::server {
namespace {

using nlohmann::json;

constexpr size_t kParsedFormBytes = 3;  // that a byte of a form takes when it is parsed, at most
constexpr size_t kFieldBytes = 256;

// Blanks are "+" there.
std::string form_decoded(std::string_view text) {
  std::string blanks(text);
  std::replace(blanks.begin(), blanks.end(), '+', ' ');
  return percent_decoded(blanks);
}

bool is_one_of(const std::string& name, std::span<const char* const> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* known) { return name == known; });
}

// Numbers of generation's parameters, as a form has them.
json form_value(const std::string& name, const std::string& text, const FormFields& fields) {
  if (is_one_of(name, fields.flags)) {
    if (text == "1" || text == "true") return true;
    if (text == "0" || text == "false") return false;
    return text;
  }
  if (is_one_of(name, fields.texts) || is_one_of(name, fields.lists)) return text;
  json value = json_or_discarded<json>(text);
  return value.is_number() || value.is_boolean() ? value : json(text);
}

bool is_form(const HttpRequest& request) {
  const std::string* type = request.header("content-type");
  if (type == nullptr) return false;
  std::string name = type->substr(0, type->find_first_of("; "));
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return static_cast<char>(c >= 'A' && c <= 'Z' ? c | 0x20 : c); });
  return name == "application/x-www-form-urlencoded";
}

// Browsers send such forms for pages of other sites, without asking the server before.
void refuse_foreign_page(const HttpRequest& request) {
  if (is_from_foreign_page(request))
    throw not_supported("content-type", "pages of other origins may send JSON only");
}

json parse_form(const HttpRequest& request, const FormFields& known) {
  const std::string_view body = request.body;
  // curl sends JSON as a form unless it is told otherwise.
  if (body.starts_with('{'))
    throw invalid_request("content-type",
                          "says that the body is a form, but it begins as JSON does (curl: -H "
                          "'Content-Type: application/json')");
  const auto fields = static_cast<size_t>(std::count(body.begin(), body.end(), '&')) + 1;
  if (request.memory &&
      !request.memory->grow_by(body.size() * kParsedFormBytes + fields * kFieldBytes))
    throw no_body_memory(request.memory->budget());
  json out = json::object();
  for (size_t at = 0; at < body.size();) {
    const size_t end = std::min(body.find('&', at), body.size());
    const std::string_view field = body.substr(at, end - at);
    at = end + 1;
    if (field.empty()) continue;
    const size_t equals = std::min(field.find('='), field.size());
    std::string name = form_decoded(field.substr(0, equals));
    const std::string text = form_decoded(field.substr(std::min(equals + 1, field.size())));
    check_utf8(name, "body");
    if (name.ends_with("[]")) name.resize(name.size() - 2);
    check_utf8(text, name);
    json value = form_value(name, text, known);
    if (is_one_of(name, known.lists))
      out.emplace(name, json::array()).first.value().push_back(std::move(value));
    else if (!out.emplace(name, std::move(value)).second)
      throw invalid_request(name, "is there twice");
  }
  return out;
}

}  // namespace

json parse_form_or_json(const HttpRequest& request, const FormFields& fields) {
  if (!is_form(request)) return parse_body(request);
  refuse_foreign_page(request);
  return parse_form(request, fields);
}

}  // namespace tandem::server
