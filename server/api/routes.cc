#include "server/api/routes.h"

#include <algorithm>

namespace tandem::server {

bool Route::matches(std::string_view request) const {
  const size_t brace = path.find('{');
  if (brace == path.npos) return request == path;
  return request.size() > brace && request.substr(0, brace) == path.substr(0, brace);
}

const std::vector<Route>& routes() {
  using enum Route::Kind;
  static const std::vector<Route> all{
      {"POST", "/v1/completions", post_completions, kComputes, "Text for prompts"},
      {"POST", "/v1/chat/completions", post_chat_completions, kComputes,
       "Text for the last message"},
      {"POST", "/v1/translate", post_translate, kComputes, "Texts in another language"},
      {"POST", "/v2/translate", post_translate, kComputes, "DeepL's name for /v1/translate"},
      {"GET", "/v2/usage", get_deepl_usage, kAnswers, "DeepL's count of characters"},
      {"GET", "/v2/languages", get_deepl_languages, kAnswers,
       "The model's languages by DeepL's codes"},
      {"GET", "/v2/glossary-language-pairs", get_deepl_glossary_pairs, kAnswers,
       "None: there are no glossaries"},
      {"POST", "/translate", post_libretranslate, kComputes, "LibreTranslate's translation",
       /*key_in_body=*/true},
      {"POST", "/detect", post_detect, kAnswers, "Which of the model's languages a text is in",
       /*key_in_body=*/true},
      {"GET", "/languages", get_libretranslate_languages, kOpen,
       "The model's languages by LibreTranslate's codes"},
      {"GET", "/frontend/settings", get_frontend_settings, kOpen,
       "What LibreTranslate's clients ask first"},
      {"POST", "/v1/embeddings", post_embeddings, kComputes, "The encoder's output as vectors"},
      {"POST", "/score", post_score, kComputes, "How alike pairs of texts are"},
      {"POST", "/v1/score", post_score, kComputes, "The same"},
      {"POST", "/v1/rerank", post_rerank, kComputes, "Documents in the order of their likeness"},
      {"POST", "/v2/rerank", post_rerank, kComputes, "Cohere's name for it"},
      {"POST", "/v1/target_scores", post_target_scores, kComputes,
       "How likely targets are, given their sources"},
      {"POST", "/classify", post_classify, kComputes,
       "The labels of texts, by a model that has some"},
      {"POST", "/v1/classify", post_classify, kComputes, "The same"},
      {"POST", "/predict", post_predict, kComputes,
       "The same, as text-embeddings-inference has it"},
      {"POST", "/v1/audio/transcriptions", post_transcriptions, kHears, "What is said in a file"},
      {"POST", "/v1/audio/translations", post_translations, kHears, "The same in English"},
      {"POST", "/tokenize", post_tokenize, kAnswers, "Token ids of a text"},
      {"POST", "/detokenize", post_detokenize, kAnswers, "The text of token ids"},
      {"GET", "/v1/models", get_models, kAnswers, "The model's names"},
      {"GET", "/v1/models/{model}", get_model, kAnswers, "One of them"},
      {"GET", "/health", get_health, kOpen, "200 while the engine computes, else 503"},
      {"GET", "/ping", get_health, kOpen, "The same"},
      {"GET", "/live", get_live, kOpen, "200 while the process runs"},
      {"GET", "/v2/health/ready", get_health, kOpen, "KServe's name for /health"},
      {"GET", "/v2/health/live", get_live, kOpen, "KServe's name for /live"},
      {"GET", "/version", get_version, kAnswers, "Tandem's version"},
      {"GET", "/metrics", get_metrics, kAnswers, "Prometheus metrics"},
      {"GET", "/status", get_status, kAnswers, "What the engine does now, as JSON"},
      {"GET", "/openapi.json", get_openapi, kAnswers, "This interface as an OpenAPI document"},
      {"GET", "/", get_page, kOpen, "A page to use the model and to watch the engine"},
      {"GET", "/page/{file}", get_page_file, kOpen, "The page's scripts and styles"},
      {"GET", "/favicon.ico", get_icon, kOpen, "The page's icon"},
  };
  return all;
}

std::string path_of_route(const std::string& path) {
  static constexpr std::string_view kDeployments = "/openai/deployments/", kAzure = "/openai/v1/";
  const auto known = [](const std::string& one) {
    return std::any_of(routes().begin(), routes().end(),
                       [&](const Route& route) { return route.matches(one); });
  };
  if (known(path)) return path;
  std::string below = path;
  if (path.starts_with(kDeployments)) {
    const size_t end = path.find('/', kDeployments.size());
    below = end == path.npos ? path : path.substr(end);
  } else if (path.starts_with(kAzure)) {
    below = path.substr(kAzure.size() - 1);
  }
  return known("/v1" + below) ? "/v1" + below : path;
}

}  // namespace tandem::server
