// DeepL's and LibreTranslate's translations of texts.
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/generation_job.h"
#include "server/api/generation/translation_job.h"
#include "server/api/routes.h"

namespace tandem::server {
namespace {

using nlohmann::json;

// For the detection of its language: without markup.
json without_markup(const json& texts, DocumentFormat format) {
  json out = json::array();
  const auto add = [&](const json& text) {
    if (text.is_string())
      out.push_back(TranslatableDocument(format, text.get<std::string>(), {}, "text").plain_text());
  };
  if (texts.is_array())
    for (const json& text : texts) add(text);
  else
    add(texts);
  return out;
}

}  // namespace

void detect_source(json& body, const LanguageSet& languages, std::optional<DocumentFormat> format) {
  for (const char* name : {"source_lang", "src_lang"})
    if (body.contains(name) && body[name] != nullptr && body[name] != "") return;
  const auto text = body.find("text");
  if (!languages.has_source() || text == body.end()) return;
  body.erase("source_lang");
  if (!format && body.contains("tag_handling") && body["tag_handling"].is_string())
    format = document_format_named(body["tag_handling"].get<std::string>());
  const bool has_markup = format && *format != DocumentFormat::kText;
  const auto found = has_markup ? detect_known_languages(without_markup(*text, *format), languages)
                                : detect_known_languages(*text, languages);
  if (!found.empty()) body["source_lang"] = found.front().code;
}

void start_translation(AppContext& app, const std::shared_ptr<Exchange>& exchange,
                       GenerationRequest request) {
  if (request.sequences > 1 && request.endpoint == Endpoint::kTranslate)
    throw not_supported("n", "a text has one translation here");
  for (const size_t characters : request.characters) app.characters_translated += characters;
  std::make_shared<GenerationJob>(app, exchange, std::move(request))->start();
}

void post_translate(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const LanguageSet& languages = app.tokenizer.languages();
  json body = parse_deepl_body(exchange->request());
  const bool is_deepl = is_deepl_path(exchange->request().path);
  if (is_deepl) detect_source(body, languages, std::nullopt);
  GenerationRequest request = parse_translation(
      std::move(body), {app.config, languages, app.glossaries, app.fixed_languages, std::nullopt});
  if (is_deepl && !request.source_language.empty())
    request.source_language = deepl_code(languages, request.source_language);
  start_translation(app, exchange, std::move(request));
}

GenerationRequest parse_libretranslate(AppContext& app, json body,
                                       std::optional<DocumentFormat> format) {
  const LanguageSet& languages = app.tokenizer.languages();
  LibreTranslateOptions options = take_libretranslate_fields(body, languages, app.fixed_languages);
  FieldNames names;
  for (const auto& [ours, theirs] :
       {std::pair("text", "q"), std::pair("source_lang", "source"), std::pair("src_lang", "source"),
        std::pair("target_lang", "target"), std::pair("tgt_lang", "target")})
    names.add(ours, theirs);
  GenerationRequest request = names.around([&] {
    return parse_translation(std::move(body),
                             {app.config, languages, app.glossaries, app.fixed_languages, format});
  });
  names.add(request.names);
  request.names = names;
  request.list_field = "q";
  request.libretranslate = std::move(options);
  return request;
}

void post_libretranslate(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  auto body = parse_libretranslate_body(app.config, *exchange);
  if (!body) return;
  GenerationRequest request = parse_libretranslate(app, std::move(*body), std::nullopt);
  request.endpoint = Endpoint::kLibreTranslate;
  start_translation(app, exchange, std::move(request));
}

}  // namespace tandem::server
