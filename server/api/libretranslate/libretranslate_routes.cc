// LibreTranslate's routes: what its clients and its page's settings ask for.
#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "server/api/fields/json_body.h"
#include "server/api/libretranslate/libretranslate.h"
#include "server/api/routes.h"
#include "text/documents/document_format.h"

namespace tandem::server {
namespace {

Json detections(const std::vector<DetectedLanguage>& found) {
  Json out = Json::array();
  for (const DetectedLanguage& language : found)
    out.push_back(
        {{"confidence", static_cast<int>(100 * language.confidence)}, {"language", language.code}});
  return out;
}

Json known_document_endings_list() {
  Json out = Json::array();
  const std::string endings = known_document_endings();
  for (size_t at = 0; at < endings.size();) {
    const size_t end = std::min(endings.find(", ", at), endings.size());
    out.push_back(endings.substr(at, end - at));
    at = end + 2;
  }
  return out;
}

// Sources first.
std::vector<LibreTranslateLanguage> languages_with_tasks(const FixedLanguages& fixed) {
  const std::set<std::string> sources = fixed.task_sources();
  std::vector<LibreTranslateLanguage> out;
  for (const std::string& code : sources) out.push_back(libretranslate_language(code));
  for (const std::string& code : fixed.task_targets())
    if (!sources.contains(code)) out.push_back(libretranslate_language(code));
  return out;
}

}  // namespace

void post_detect(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  auto body = parse_libretranslate_body(app.config, *exchange);
  if (!body) return;
  const auto q = take(*body, "q");
  if (!q) throw invalid_request("q", "is missing");
  const auto detect = [&](const nlohmann::json& text) {
    if (!text.is_string()) throw invalid_request("q", "must be a text or a list of texts");
    return detections(detect_known_languages(text, app.tokenizer.languages(), app.fixed_languages));
  };
  Json out;
  if (q->is_array())
    for (const nlohmann::json& text : *q) out.push_back(detect(text));
  else
    out = detect(*q);
  exchange->respond({.body = dump_ordered_line(out)});
}

void get_libretranslate_languages(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const std::string &source = app.fixed_languages.source, &target = app.fixed_languages.target;
  auto languages = libretranslate_languages(app.tokenizer.languages());
  if (!target.empty()) languages.push_back(libretranslate_language(target));
  Json targets = Json::array(), out = Json::array();
  for (const LibreTranslateLanguage& language : languages) targets.push_back(language.code);
  const auto add = [&](const LibreTranslateLanguage& language, const Json& to) {
    out.push_back({{"code", language.code}, {"name", language.name}, {"targets", to}});
  };
  if (!app.fixed_languages.tasks.empty()) {
    for (const LibreTranslateLanguage& language : languages_with_tasks(app.fixed_languages))
      add(language, app.fixed_languages.task_targets(language.code));
    return exchange->respond({.body = dump_ordered_line(out)});
  }
  if (!source.empty()) add(libretranslate_language(source), targets);
  for (const LibreTranslateLanguage& language : languages)
    if (language.code != source) add(language, source.empty() ? targets : Json::array());
  exchange->respond({.body = dump_ordered_line(out)});
}

void get_frontend_settings(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const auto languages = libretranslate_languages(app.tokenizer.languages());
  const auto entry = [](const std::string& code, const std::string& name) {
    return Json{{"code", code}, {"name", name}};
  };
  const Json first = languages.empty() ? entry("en", "English")
                                       : entry(languages.front().code, languages.front().name);
  exchange->respond(
      {.body = dump_ordered_line(
           {{"apiKeys", !app.config.api_keys.empty()},
            {"charLimit", -1},
            {"filesTranslation", true},
            {"frontendTimeout", 500},
            {"keyRequired", !app.config.api_keys.empty()},
            {"language", {{"source", entry("auto", "Auto Detect")}, {"target", first}}},
            {"suggestions", false},
            {"supportedFilesFormat", known_document_endings_list()}})});
}

}  // namespace tandem::server
