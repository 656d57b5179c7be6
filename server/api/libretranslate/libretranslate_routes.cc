// LibreTranslate's routes: what its clients and its page's settings ask for.
#include <memory>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "server/api/api_key.h"
#include "server/api/errors.h"
#include "server/api/form_body.h"
#include "server/api/generation/generation_job.h"
#include "server/api/json_body.h"
#include "server/api/libretranslate/libretranslate.h"
#include "server/api/routes.h"

namespace tandem::server {
namespace {

constexpr const char* kTexts[] = {"q", "source", "target", "format", "api_key"};

// The body, without the key, which may stand there. Nothing: the key is wrong, and that has been
// answered.
std::optional<nlohmann::json> parse(const AppContext& app, Exchange& exchange) {
  nlohmann::json body = parse_form_or_json(exchange.request(), {{}, kTexts, {}});
  const auto key = take_string(body, "api_key");
  if (has_key(app.config, exchange.request()) || is_key(app.config, key.value_or(""))) return body;
  exchange.respond(error_response(401, kWrongKey));
  return std::nullopt;
}

Json detections(const std::vector<DetectedLanguage>& found) {
  Json out = Json::array();
  for (const DetectedLanguage& language : found)
    out.push_back(
        {{"confidence", static_cast<int>(100 * language.confidence)}, {"language", language.code}});
  return out;
}

}  // namespace

void post_libretranslate(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const LanguageSet& languages = app.tokenizer.languages();
  auto body = parse(app, *exchange);
  if (!body) return;
  LibreTranslateOptions options = take_libretranslate_fields(*body, languages);
  FieldNames names;
  for (const auto& [ours, theirs] :
       {std::pair("text", "q"), std::pair("source_lang", "source"), std::pair("src_lang", "source"),
        std::pair("target_lang", "target"), std::pair("tgt_lang", "target")})
    names.add(ours, theirs);
  GenerationRequest request =
      names.around([&] { return parse_translation(std::move(*body), app.config, languages); });
  names.add(request.names);
  request.names = names;
  request.endpoint = Endpoint::kLibreTranslate;
  request.libretranslate = std::move(options);
  for (const size_t characters : request.characters) app.characters_translated += characters;
  std::make_shared<GenerationJob>(app, exchange, std::move(request))->start();
}

void post_detect(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  auto body = parse(app, *exchange);
  if (!body) return;
  const auto q = take(*body, "q");
  if (!q) throw invalid_request("q", "is missing");
  const auto detect = [&](const nlohmann::json& text) {
    if (!text.is_string()) throw invalid_request("q", "must be a text or a list of texts");
    return detections(
        detect_known_languages(text.get_ref<const std::string&>(), app.tokenizer.languages()));
  };
  Json out;
  if (q->is_array())
    for (const nlohmann::json& text : *q) out.push_back(detect(text));
  else
    out = detect(*q);
  exchange->respond({.body = dump_ordered_line(out)});
}

void get_libretranslate_languages(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const auto languages = libretranslate_languages(app.tokenizer.languages());
  Json targets = Json::array(), out = Json::array();
  for (const LibreTranslateLanguage& language : languages) targets.push_back(language.code);
  for (const LibreTranslateLanguage& language : languages)
    out.push_back({{"code", language.code}, {"name", language.name}, {"targets", targets}});
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
            {"filesTranslation", false},
            {"frontendTimeout", 500},
            {"keyRequired", !app.config.api_keys.empty()},
            {"language", {{"source", entry("auto", "Auto Detect")}, {"target", first}}},
            {"suggestions", false},
            {"supportedFilesFormat", Json::array()}})});
}

}  // namespace tandem::server
