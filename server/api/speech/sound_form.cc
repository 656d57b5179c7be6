#include "server/api/speech/sound_form.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"
#include "runtime/protocol/json/json_line.h"
#include "server/http/body/form.h"
#include "server/http/body_budget.h"

namespace tandem::server {
namespace {

using nlohmann::json;

constexpr size_t kParsedJsonBytes = 40;  // that a byte of JSON may take when it is parsed

// What these say is no JSON, even where it looks like some.
constexpr std::string_view kTexts[] = {"model",           "language",   "prompt",
                                       "response_format", "task",       "prompt_condition_type",
                                       "to_language",     "hotwords",   "user",
                                       "include",         "request_id", "timestamp_granularities",
                                       "cache_salt",      "stop",       "bad_words"};

// Of these a list of ids is one, and all else a text: faster-whisper's clients send both.
constexpr std::string_view kTextsOrIds[] = {"prefix", "initial_prompt"};

bool is_text(std::string_view name) {
  return std::find(std::begin(kTexts), std::end(kTexts), name) != std::end(kTexts);
}

json value_of(const std::string& name, std::string_view text) {
  const bool may_be_ids =
      std::find(std::begin(kTextsOrIds), std::end(kTextsOrIds), name) != std::end(kTextsOrIds);
  if (is_text(name) || (may_be_ids && !text.starts_with('['))) return std::string(text);
  if (text == "True") return true;
  if (text == "False") return false;
  if (text == "None") return nullptr;
  const bool may_be_json =
      !text.empty() &&
      std::string_view("-0123456789[{tfn").find(text.front()) != std::string_view::npos;
  if (may_be_json) {
    try {
      return parse_json_line(text);
    } catch (const InputError&) {  // then it is a text
    }
  }
  return std::string(text);
}

// Lists that some clients send as the same field several times.
constexpr std::string_view kLists[] = {"timestamp_granularities", "include"};

void put_element(json& fields, const std::string& name, json value) {
  json& list = fields.emplace(name, json::array()).first.value();
  if (!list.is_array()) throw invalid_request(name, "is there twice");
  list.push_back(std::move(value));
}

void put(json& fields, const FormPart& part) {
  check_utf8(part.name, "body");
  const size_t bracket = part.name.find('[');
  const bool has_key = bracket != 0 && bracket != std::string::npos && part.name.ends_with(']');
  const std::string name = has_key ? part.name.substr(0, bracket) : part.name;
  check_utf8(part.content, name);
  json value = value_of(name, part.content);
  if (!has_key) {
    const auto it = fields.find(name);
    if (std::find(std::begin(kLists), std::end(kLists), name) != std::end(kLists))
      return put_element(fields, name, std::move(value));
    if (it != fields.end()) throw invalid_request(name, "is there twice");
    fields[name] = std::move(value);
    return;
  }
  const std::string key = part.name.substr(bracket + 1, part.name.size() - bracket - 2);
  if (key.find_first_not_of("0123456789") == std::string::npos)
    return put_element(fields, name, std::move(value));
  json& object = fields.emplace(name, json::object()).first.value();
  if (!object.is_object() || !object.emplace(key, std::move(value)).second)
    throw invalid_request(name, "is there twice");
}

// Where the form has no field `file`: what the client may have meant by it.
InputError no_file(const std::vector<FormPart>& parts) {
  constexpr size_t kLong = 4096;  // no text is
  for (const FormPart& part : parts)
    if (part.file || part.content.size() > kLong)
      return invalid_request("file", "is missing; the form has a file, but its field is called " +
                                         in_quotes(part.name) + " instead of \"file\"");
  return invalid_request("file", "is missing: the form has no field of that name");
}

}  // namespace

SoundForm read_sound_form(const HttpRequest& request) {
  if (request.form == nullptr)
    throw invalid_request("content-type", "is missing; expected multipart/form-data");
  SoundForm form{.file = {}, .fields = json::object()};
  const std::vector<FormPart>& parts = request.form->parts;
  if (std::none_of(parts.begin(), parts.end(),
                   [](const auto& part) { return part.name == "file"; }))
    throw no_file(parts);
  for (const FormPart& part : parts) {
    if (part.file) {
      if (part.name != "file")
        throw invalid_request(part.name, "is a file; the one that is heard is in \"file\"");
      form.file = part.file;
      continue;
    }
    if (request.memory && !request.memory->grow_by(kParsedJsonBytes * part.content.size()))
      throw no_body_memory(request.memory->budget());
    put(form.fields, part);
  }
  if (form.file->size() == 0) throw invalid_request("file", "is empty");
  return form;
}

}  // namespace tandem::server
