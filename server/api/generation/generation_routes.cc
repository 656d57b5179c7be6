#include <string>
#include <utility>

#include "base/error.h"
#include "server/api/generation/generation_job.h"
#include "server/api/json_body.h"
#include "server/api/routes.h"

namespace tandem::server {

void post_completions(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  std::make_shared<GenerationJob>(app, exchange,
                                  parse_completion(parse_body(exchange->request()), app.config))
      ->start();
}

void post_chat_completions(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  std::make_shared<GenerationJob>(app, exchange,
                                  parse_chat(parse_body(exchange->request()), app.config))
      ->start();
}

namespace {

// DeepL finds out what language texts are in, where nobody says so. What cannot be told is in the
// model's own source language.
void detect_source(nlohmann::json& body, const LanguageSet& languages) {
  for (const char* name : {"source_lang", "src_lang"})
    if (body.contains(name) && body[name] != nullptr && body[name] != "") return;
  const auto text = body.find("text");
  if (!languages.has_source() || text == body.end()) return;
  body.erase("source_lang");
  const auto found = detect_known_languages(*text, languages);
  if (!found.empty()) body["source_lang"] = found.front().code;
}

}  // namespace

void post_translate(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const LanguageSet& languages = app.tokenizer.languages();
  nlohmann::json body = parse_deepl_body(exchange->request());
  if (is_deepl_path(exchange->request().path)) detect_source(body, languages);
  GenerationRequest request = parse_translation(std::move(body), app.config, languages);
  if (request.sequences > 1) throw not_supported("n", "a text has one translation here");
  if (is_deepl_path(exchange->request().path) && !request.source_language.empty())
    request.source_language = deepl_code(languages, request.source_language);
  for (const size_t characters : request.characters) app.characters_translated += characters;
  std::make_shared<GenerationJob>(app, exchange, std::move(request))->start();
}

void post_libretranslate(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const LanguageSet& languages = app.tokenizer.languages();
  auto body = parse_libretranslate_body(app.config, *exchange);
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
  request.list_field = "q";
  request.libretranslate = std::move(options);
  for (const size_t characters : request.characters) app.characters_translated += characters;
  std::make_shared<GenerationJob>(app, exchange, std::move(request))->start();
}

}  // namespace tandem::server
