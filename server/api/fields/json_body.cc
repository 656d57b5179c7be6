#include "server/api/fields/json_body.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "runtime/protocol/json/json_line.h"
#include "runtime/request/request_json.h"
#include "server/http/body_budget.h"

namespace tandem::server {
namespace {

InputError wrong(const char* name, const std::string& expected, const nlohmann::json& found) {
  std::string text = dump_line(found);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return invalid_request(name, "expected " + expected + ", found " + text);
}

std::string between(const std::string& what, const std::string& least, const std::string& most) {
  return what + " from " + least + " to " + most;
}

// What parsing takes: of nlohmann's values (16 bytes in a vector that has grown), containers,
// nodes of maps and strings with what the allocator adds. An upper bound, near enough.
size_t cost_of_parsing(std::string_view text) {
  constexpr size_t kValue = 32, kContainer = 64, kMember = 96, kString = 64;
  size_t cost = kValue;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case ',': cost += kValue; break;
      case '[':
      case '{': cost += kValue + kContainer; break;
      case ':': cost += kMember; break;
      case '"': {
        const size_t begin = i++;
        while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
        cost += kString + (std::min(i, text.size()) - begin);
        break;
      }
      default: break;
    }
  }
  return cost;
}

// Takes the memory that parsing needs from the server's, before it is needed.
void reserve_for_parsing(const HttpRequest& request) {
  if (!request.memory) return;
  const size_t cost = cost_of_parsing(request.body);
  if (!request.memory->grow_by(cost))
    throw no_memory_to_parse(request.memory->budget(), cost + request.body.size());
}

}  // namespace

nlohmann::json parse_body(const HttpRequest& request) {
  const std::string* type = request.header("content-type");
  if (type != nullptr && type->find("json") == std::string::npos)
    throw invalid_request("content-type", "expected application/json, found " +
                                              type->substr(0, 80) +
                                              " (curl: -H 'Content-Type: application/json')");
  if (request.body.empty()) throw invalid_request("body", "is empty; expected a JSON object");
  reserve_for_parsing(request);
  nlohmann::json body = parse_json_line(request.body);
  if (!body.is_object())
    throw invalid_request("body", std::string("expected a JSON object, found ") + body.type_name());
  return body;
}

std::optional<nlohmann::json> take(nlohmann::json& body, const char* name) {
  const auto it = body.find(name);
  if (it == body.end()) return std::nullopt;
  nlohmann::json value = std::move(*it);
  body.erase(it);
  if (value.is_null()) return std::nullopt;
  return value;
}

std::optional<bool> take_bool(nlohmann::json& body, const char* name) {
  const auto value = take(body, name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) throw wrong(name, "true or false", *value);
  return value->get<bool>();
}

std::optional<int64_t> take_int(nlohmann::json& body, const char* name, int64_t least,
                                int64_t most) {
  const auto value = take(body, name);
  if (!value) return std::nullopt;
  const std::string expected = between("an integer", std::to_string(least), std::to_string(most));
  if (!value->is_number_integer()) throw wrong(name, expected, *value);
  // Unsigned ones beyond int64 would wrap.
  if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
    throw wrong(name, expected, *value);
  const auto number = value->get<int64_t>();
  if (number < least || number > most) throw wrong(name, expected, *value);
  return number;
}

std::optional<double> take_number(nlohmann::json& body, const char* name, double least,
                                  double most) {
  const auto value = take(body, name);
  if (!value) return std::nullopt;
  const std::string expected =
      between("a number", json_text(nlohmann::json(least)), json_text(nlohmann::json(most)));
  if (!value->is_number()) throw wrong(name, expected, *value);
  const auto number = value->get<double>();
  if (!(number >= least && number <= most)) throw wrong(name, expected, *value);
  return number;
}

std::optional<std::string> take_string(nlohmann::json& body, const char* name) {
  const auto value = take(body, name);
  if (!value) return std::nullopt;
  if (!value->is_string()) throw wrong(name, "a string", *value);
  return value->get<std::string>();
}

bool is_token_ids(const nlohmann::json& value) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(),
                     [](const nlohmann::json& id) { return id.is_number_integer(); });
}

void refuse_fields(nlohmann::json& body, std::span<const RefusedField> fields) {
  for (const RefusedField& field : fields) {
    const auto value = take(body, field.name);
    if (!value) continue;
    const auto off = json_from<nlohmann::json>(field.off);
    if (std::find(off.begin(), off.end(), *value) == off.end())
      throw not_supported(field.name, field.why);
  }
}

void refuse_rest(const nlohmann::json& body) {
  if (!body.empty()) throw invalid_request(body.begin().key(), "is not a field of this request");
}

}  // namespace tandem::server
