#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "base/strings/readable_text.h"
#include "server/api/deepl/deepl.h"
#include "server/api/fields/form_body.h"
#include "server/api/fields/json_body.h"

namespace tandem::server {
namespace {

using nlohmann::json;

// (An empty list, text or object asks for nothing.)
constexpr const char* kNothing = R"(["", [], {}])";
constexpr RefusedField kRefusedFields[] = {
    {"glossary_ids", kNothing, "a text is translated with one glossary; glossary_id names it"},
    {"style_id", kNothing, "there are no style rules here"},
    {"custom_instructions", kNothing, "this kind of model follows no instructions"},
    {"translation_memory_id", kNothing, "there are no translation memories here"},
    {"translation_memory_threshold", kNothing, "there are no translation memories here"}};

// Of forms: what DeepL's fields are that are no texts.
constexpr const char* kDeeplFlags[] = {"preserve_formatting", "show_billed_characters",
                                       "outline_detection", "enable_beta_languages"};
constexpr const char* kDeeplLists[] = {"text",        "non_splitting_tags", "splitting_tags",
                                       "ignore_tags", "glossary_ids",       "custom_instructions"};
constexpr const char* kDeeplTexts[] = {"source_lang", "target_lang",     "context",
                                       "formality",   "split_sentences", "tag_handling",
                                       "model_type",  "glossary_id",     "tag_handling_version"};

bool asks_for_nothing(const json& value) {
  return value.is_null() || value == "" || (value.is_structured() && value.empty());
}

void take_choice(json& body, const char* name, std::initializer_list<const char*> without_effect,
                 std::initializer_list<const char*> refused, std::string* value = nullptr) {
  const auto given = take(body, name);
  if (!given) return;
  const std::string text = given->is_string() ? given->get<std::string>() : dump_line(*given);
  const auto is = [&](const char* choice) { return text == choice; };
  if (std::any_of(refused.begin(), refused.end(), is))
    throw not_supported(name, text + " is not built; the model has one way to say a thing");
  if (std::none_of(without_effect.begin(), without_effect.end(), is))
    throw invalid_request(name, "\"" + text.substr(0, 40) + "\" is no value of it");
  if (value != nullptr) *value = text;
}

// Names of elements: a list, or a text with commas between them.
std::set<std::string, std::less<>> take_tags(json& body, const char* name, bool has_tags) {
  std::set<std::string, std::less<>> out;
  auto value = take(body, name);
  if (!value || asks_for_nothing(*value)) return out;
  if (!has_tags) throw invalid_request(name, "needs tag_handling");
  if (value->is_string()) value = json::array({*value});
  if (!value->is_array()) throw invalid_request(name, "expected a list of names");
  for (const json& one : *value) {
    if (!one.is_string()) throw invalid_request(name, "expected a list of names");
    const std::string& names = one.get_ref<const std::string&>();
    for (size_t at = 0; at <= names.size();) {
      const size_t end = std::min(names.find(',', at), names.size());
      const size_t first = std::min(names.find_first_not_of(' ', at), end);
      const size_t last = names.find_last_not_of(' ', end == 0 ? 0 : end - 1);
      if (first < end) out.insert(names.substr(first, last + 1 - first));
      at = end + 1;
    }
  }
  return out;
}

void take_tag_handling(json& body, DeeplOptions& out) {
  const std::string handling = take_string(body, "tag_handling").value_or("");
  if (!handling.empty() && handling != "html" && handling != "xml")
    throw invalid_request("tag_handling",
                          "\"" + handling.substr(0, 40) + "\" is neither html nor xml");
  if (!handling.empty()) out.format = document_format_named(handling);
  take_choice(body, "tag_handling_version", {"", "v1", "v2"}, {});
  const bool has_tags = out.format.has_value();
  out.tags.ignored = take_tags(body, "ignore_tags", has_tags);
  out.tags.splitting = take_tags(body, "splitting_tags", has_tags);
  out.tags.inside = take_tags(body, "non_splitting_tags", has_tags);
  out.tags.detect_outline = take_bool(body, "outline_detection").value_or(true);
}

}  // namespace

bool is_deepl_path(std::string_view path) {
  return path.starts_with("/v3/") || (path.starts_with("/v2/") && !path.starts_with("/v2/health/"));
}

void as_deepl_error(const HttpRequest& request, HttpResponse& response) {
  if (response.status < 400 || !is_deepl_path(request.path)) return;
  if (response.status == 401) response.status = 403;
  Json body = json_or_discarded<Json>(response.body);
  if (!body.is_object() || !body.contains("error") || !body["error"].is_object()) return;
  if (body["error"]["code"].is_number()) body["error"]["code"] = response.status;
  body["message"] = body["error"].value("message", "");
  response.body = dump_ordered_line(body);
}

json parse_deepl_body(const HttpRequest& request) {
  return parse_form_or_json(request, {kDeeplFlags, kDeeplTexts, kDeeplLists});
}

DeeplOptions take_deepl_options(json& body) {
  DeeplOptions out;
  refuse_fields(body, kRefusedFields);
  out.show_billed_characters = take_bool(body, "show_billed_characters").value_or(true);
  for (const char* name : {"preserve_formatting", "enable_beta_languages"}) take_bool(body, name);
  take_tag_handling(body, out);
  out.glossary_id = take_string(body, "glossary_id").value_or("");
  take_string(body, "context");
  std::string sentences;
  take_choice(body, "split_sentences", {"0", "1", "nonewlines"}, {}, &sentences);
  out.sentences = sentences != "0";
  if (!body.contains("split"))
    body["split"] = sentences == "0" ? "none" : sentences == "1" ? "sentences" : "auto";
  take_choice(body, "formality", {"default", "prefer_more", "prefer_less"}, {"more", "less"});
  take_choice(body, "model_type",
              {"quality_optimized", "prefer_quality_optimized", "latency_optimized"}, {},
              &out.model_type);
  return out;
}

}  // namespace tandem::server
