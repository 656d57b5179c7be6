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

void post_translate(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const LanguageSet& languages = app.tokenizer.languages();
  GenerationRequest request =
      parse_translation(parse_deepl_body(exchange->request()), app.config, languages);
  if (is_deepl_path(exchange->request().path) && !request.source_language.empty())
    request.source_language = deepl_code(languages, request.source_language);
  for (const size_t characters : request.characters) app.characters_translated += characters;
  std::make_shared<GenerationJob>(app, exchange, std::move(request))->start();
}

}  // namespace tandem::server
