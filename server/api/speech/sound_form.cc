#include "server/api/speech/sound_form.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/utf8.h"
#include "runtime/protocol/json_line.h"
#include "server/http/body/form.h"
#include "server/http/body_budget.h"

namespace tandem::server {
namespace {

using nlohmann::json;

constexpr size_t kParsedBytes = 40;  // that a byte of JSON may take when it is parsed

// What these say is no JSON, even where it looks like some.
constexpr std::string_view kTexts[] = {"model",           "language",   "prompt",
                                       "response_format", "task",       "prompt_condition_type",
                                       "to_language",     "hotwords",   "user",
                                       "include",         "request_id", "timestamp_granularities",
                                       "cache_salt",      "stop",       "bad_words"};

bool is_text(std::string_view name) {
  return std::find(std::begin(kTexts), std::end(kTexts), name) != std::end(kTexts);
}

json value_of(const std::string& name, std::string_view text) {
  if (is_text(name)) return std::string(text);
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

void put(json& fields, const FormPart& part) {
  check_utf8(part.name, "body");
  std::string name = part.name;
  const bool element = name.size() > 2 && name.ends_with("[]");
  if (element) name.resize(name.size() - 2);
  check_utf8(part.content, name);
  json value = value_of(name, part.content);
  if (element) {
    json& list = fields.emplace(name, json::array()).first.value();
    if (!list.is_array()) throw invalid_request(name, "is there twice");
    list.push_back(std::move(value));
  } else if (!fields.emplace(name, std::move(value)).second) {
    throw invalid_request(name, "is there twice");
  }
}

}  // namespace

SoundForm read_sound_form(const HttpRequest& request) {
  if (request.form == nullptr)
    throw invalid_request("content-type", "is missing; expected multipart/form-data");
  SoundForm form{.file = {}, .fields = json::object()};
  for (const FormPart& part : request.form->parts) {
    if (part.file) {
      if (part.name != "file")
        throw invalid_request(part.name, "is a file; the field of a file is called \"file\"");
      form.file = part.file;
      continue;
    }
    if (request.memory && !request.memory->grow_by(kParsedBytes * part.content.size()))
      throw InputError(ErrorKind::kOverloaded,
                       "the bodies of requests under way take all the memory that the server has "
                       "for them (--max-body-memory); try again later");
    put(form.fields, part);
  }
  if (!form.file) throw invalid_request("file", "is missing");
  if (form.file->size() == 0) throw invalid_request("file", "is empty");
  return form;
}

}  // namespace tandem::server
