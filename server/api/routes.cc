#include "server/api/routes.h"

#include <algorithm>

namespace tandem::server {

bool Route::matches(std::string_view request) const {
  std::string_view pattern = path;
  while (true) {
    const size_t brace = pattern.find('{');
    if (brace == pattern.npos) return request == pattern;
    if (request.size() <= brace || request.substr(0, brace) != pattern.substr(0, brace))
      return false;
    if (pattern.substr(brace) == "{model}") return true;
    request.remove_prefix(brace);
    const size_t end = std::min(request.find('/'), request.size());
    if (end == 0) return false;
    request.remove_prefix(end);
    pattern.remove_prefix(pattern.find('}', brace) + 1);
  }
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
      {"POST", "/v2/document", post_document, kReads, "DeepL's translation of a file"},
      {"POST", "/v2/document/{id}", post_document_status, kAnswers, "Whether it is ready"},
      {"POST", "/v2/document/{id}/result", post_document_result, kAnswers, "The translated file"},
      {"GET", "/v2/glossary-language-pairs", get_deepl_glossary_pairs, kAnswers,
       "Pairs of the model's languages"},
      {"POST", "/v2/glossaries", post_glossary, kAnswers,
       "Makes a glossary of a pair of languages"},
      {"GET", "/v2/glossaries", get_glossaries, kAnswers, "Those that there are"},
      {"GET", "/v2/glossaries/{id}", get_glossary, kAnswers, "One of them"},
      {"DELETE", "/v2/glossaries/{id}", delete_glossary, kAnswers, "Deletes it"},
      {"GET", "/v2/glossaries/{id}/entries", get_glossary_entries, kAnswers,
       "Its entries, separated by tabs"},
      {"POST", "/v3/glossaries", post_glossary, kAnswers, "Makes a glossary of several pairs"},
      {"GET", "/v3/glossaries", get_glossaries, kAnswers, "Those that there are"},
      {"GET", "/v3/glossaries/{id}", get_glossary, kAnswers, "One of them"},
      {"PATCH", "/v3/glossaries/{id}", patch_glossary, kAnswers, "Renames it, adds entries"},
      {"DELETE", "/v3/glossaries/{id}", delete_glossary, kAnswers, "Deletes it"},
      {"GET", "/v3/glossaries/{id}/entries", get_glossary_entries, kAnswers,
       "The entries of a pair"},
      {"PUT", "/v3/glossaries/{id}/dictionaries", put_glossary_dictionary, kAnswers,
       "Replaces the entries of a pair"},
      {"DELETE", "/v3/glossaries/{id}/dictionaries", delete_glossary_dictionary, kAnswers,
       "Deletes a pair"},
      {"POST", "/translate", post_libretranslate, kComputes, "LibreTranslate's translation",
       /*key_in_body=*/true},
      {"POST", "/translate_file", post_translate_file, kReads, "LibreTranslate's, of a file",
       /*key_in_body=*/true},
      {"GET", "/download_file/{id}", get_download_file, kOpen, "The file that it has made"},
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
      {"GET", "/", get_page, kOpen, "A page to try prompts and to watch the engine"},
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
