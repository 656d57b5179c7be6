#include "server/api/routes.h"

#include <algorithm>
#include <string_view>

namespace tandem::server {

namespace {

using enum Route::Kind;

constexpr const char* kAnyFile =
    "text/plain text/markdown text/html application/xml application/octet-stream";

std::vector<Route> text_routes() {
  return {
      {"POST",
       "/v1/completions",
       post_completions,
       kComputes,
       "Text for prompts",
       {"CompletionRequest", "Completion", "CompletionChunk"}},
      {"POST",
       "/v1/chat/completions",
       post_chat_completions,
       kComputes,
       "Text for the last message",
       {"ChatCompletionRequest", "ChatCompletion", "ChatCompletionChunk"}},
      {"POST",
       "/v1/responses",
       post_responses,
       kComputes,
       "OpenAI's later name for it",
       {"ResponseRequest", "Response", "ResponseEvent"}},
  };
}

std::vector<Route> huggingface_routes() {
  const RouteSchemas task{"TaskRequest", "GeneratedList", nullptr, "HuggingFaceError"};
  return {
      {"POST",
       "/",
       post_huggingface,
       kMayHear,
       "HuggingFace's endpoint: text, or what is said",
       {"RootRequest", "RootAnswer", "GenerateEvent", "HuggingFaceError"}},
      {"POST",
       "/generate",
       post_generate,
       kComputes,
       "text-generation-inference's text",
       {"GenerateRequest", "Generated", nullptr, "HuggingFaceError"}},
      {"POST",
       "/generate_stream",
       post_generate_stream,
       kComputes,
       "The same as events",
       {"GenerateRequest", nullptr, "GenerateEvent", "HuggingFaceError"}},
      {"GET",
       "/info",
       get_info,
       kAnswers,
       "text-generation-inference's facts of the server",
       {.answer = "Info", .error = "HuggingFaceError"}},
      {"POST", "/pipeline/summarization", post_text_pipeline, kComputes,
       "As transformers' pipeline", task},
      {"POST", "/pipeline/translation", post_text_pipeline, kComputes, "As transformers' pipeline",
       task},
      {"POST", "/pipeline/text2text-generation", post_text_pipeline, kComputes,
       "As transformers' pipeline", task},
      {"POST", "/pipeline/text-generation", post_text_pipeline, kComputes, "The same", task},
      {"POST",
       "/pipeline/feature-extraction",
       post_feature_extraction,
       kComputes,
       "Vectors of texts",
       {"FeatureRequest", "Features", nullptr, "HuggingFaceError"}},
      {"POST",
       "/pipeline/automatic-speech-recognition",
       post_speech_pipeline,
       kMayHear,
       "What is said in a file",
       {"RecognitionRequest", "Recognition", nullptr, "HuggingFaceError"}},
  };
}

std::vector<Route> deepl_routes() {
  return {
      {"POST",
       "/v1/translate",
       post_translate,
       kComputes,
       "Texts in another language",
       {.request = "TranslationRequest", .answer = "Translations", .form = true}},
      {"POST",
       "/v2/translate",
       post_translate,
       kComputes,
       "DeepL's name for /v1/translate",
       {.request = "TranslationRequest",
        .answer = "Translations",
        .error = "DeeplError",
        .form = true}},
      {"GET",
       "/v2/usage",
       get_deepl_usage,
       kAnswers,
       "DeepL's count of characters",
       {.answer = "DeeplUsage", .error = "DeeplError"}},
      {"GET",
       "/v2/languages",
       get_deepl_languages,
       kAnswers,
       "The model's languages by DeepL's codes",
       {.answer = "DeeplLanguages", .error = "DeeplError"}},
  };
}

// DeepL's, with its errors.
Route deepl(const char* method, std::string_view path, Handler handler, const char* summary,
            const char* request, const char* answer, Route::Kind kind = kAnswers) {
  return {method, path, handler, kind, summary, {request, answer, nullptr, "DeeplError"}};
}

std::vector<Route> document_routes() {
  Route result = deepl("POST", "/v2/document/{id}/result", post_document_result,
                       "The translated file", "DocumentKey", nullptr);
  result.schemas.other_types = kAnyFile;
  return {
      deepl("POST", "/v2/document", post_document, "DeepL's translation of a file",
            "DocumentRequest", "DeeplDocument", kReads),
      deepl("POST", "/v2/document/{id}", post_document_status, "Whether it is ready", "DocumentKey",
            "DeeplDocumentStatus"),
      result,
      {"POST",
       "/translate_file",
       post_translate_file,
       kReads,
       "LibreTranslate's translation of a file",
       {.request = "FileRequest", .answer = "TranslatedFile", .error = "LibreTranslateError"},
       /*key_in_body=*/true},
      {"GET",
       "/download_file/{id}",
       get_download_file,
       kOpen,
       "The file that it has made",
       {.error = "LibreTranslateError", .other_types = kAnyFile}},
  };
}

std::vector<Route> glossary_routes() {
  return {
      deepl("GET", "/v2/glossary-language-pairs", get_deepl_glossary_pairs,
            "Pairs of the model's languages", nullptr, "DeeplGlossaryPairs"),
      deepl("POST", "/v2/glossaries", post_glossary, "Makes a glossary of a pair of languages",
            "GlossaryRequest", "Glossary"),
      deepl("GET", "/v2/glossaries", get_glossaries, "Those that there are", nullptr, "Glossaries"),
      deepl("GET", "/v2/glossaries/{id}", get_glossary, "One of them", nullptr, "Glossary"),
      deepl("DELETE", "/v2/glossaries/{id}", delete_glossary, "Deletes it", nullptr, nullptr),
      {"GET",
       "/v2/glossaries/{id}/entries",
       get_glossary_entries,
       kAnswers,
       "Its entries, separated by tabs",
       {.error = "DeeplError", .other_types = "text/tab-separated-values"}},
      deepl("POST", "/v3/glossaries", post_glossary, "Makes a glossary of several pairs",
            "MultilingualGlossaryRequest", "MultilingualGlossary"),
      deepl("GET", "/v3/glossaries", get_glossaries, "Those that there are", nullptr,
            "MultilingualGlossaries"),
      deepl("GET", "/v3/glossaries/{id}", get_glossary, "One of them", nullptr,
            "MultilingualGlossary"),
      deepl("PATCH", "/v3/glossaries/{id}", patch_glossary, "Renames it, adds entries",
            "MultilingualGlossaryRequest", "MultilingualGlossary"),
      deepl("DELETE", "/v3/glossaries/{id}", delete_glossary, "Deletes it", nullptr, nullptr),
      deepl("GET", "/v3/glossaries/{id}/entries", get_glossary_entries, "The entries of a pair",
            nullptr, "GlossaryEntries"),
      deepl("PUT", "/v3/glossaries/{id}/dictionaries", put_glossary_dictionary,
            "Replaces the entries of a pair", "GlossaryDictionaryRequest", "GlossaryDictionary"),
      deepl("DELETE", "/v3/glossaries/{id}/dictionaries", delete_glossary_dictionary,
            "Deletes a pair", nullptr, nullptr),
  };
}

std::vector<Route> libretranslate_routes() {
  return {
      {"POST",
       "/translate",
       post_libretranslate,
       kComputes,
       "LibreTranslate's translation",
       {.request = "LibreTranslateRequest",
        .answer = "LibreTranslation",
        .error = "LibreTranslateError",
        .form = true},
       /*key_in_body=*/true},
      {"POST",
       "/detect",
       post_detect,
       kAnswers,
       "Which of the model's languages a text is in",
       {.request = "DetectionRequest",
        .answer = "Detections",
        .error = "LibreTranslateError",
        .form = true},
       /*key_in_body=*/true},
      {"GET",
       "/languages",
       get_libretranslate_languages,
       kOpen,
       "The model's languages by LibreTranslate's codes",
       {.answer = "LibreTranslateLanguages", .error = "LibreTranslateError"}},
      {"GET",
       "/frontend/settings",
       get_frontend_settings,
       kOpen,
       "What LibreTranslate's clients ask first",
       {.answer = "FrontendSettings", .error = "LibreTranslateError"}},
  };
}

std::vector<Route> scoring_routes() {
  return {
      {"POST",
       "/v1/embeddings",
       post_embeddings,
       kComputes,
       "The encoder's output as vectors",
       {"EmbeddingRequest", "Embeddings"}},
      {"POST",
       "/score",
       post_score,
       kComputes,
       "How alike pairs of texts are",
       {"ScoreRequest", "Scores"}},
      {"POST", "/v1/score", post_score, kComputes, "The same", {"ScoreRequest", "Scores"}},
      {"POST",
       "/v1/rerank",
       post_rerank,
       kComputes,
       "Documents in the order of their likeness",
       {"RerankRequest", "Ranking"}},
      {"POST",
       "/v2/rerank",
       post_rerank,
       kComputes,
       "Cohere's name for it",
       {"RerankRequest", "Ranking", nullptr, "DeeplError"}},
      {"POST",
       "/classify",
       post_classify,
       kComputes,
       "The labels of texts, by a model that has some",
       {"ClassificationRequest", "Classifications"}},
      {"POST",
       "/v1/classify",
       post_classify,
       kComputes,
       "The same",
       {"ClassificationRequest", "Classifications"}},
      {"POST",
       "/predict",
       post_predict,
       kComputes,
       "The same, as text-embeddings-inference has it",
       {"PredictRequest", "Predictions"}},
      {"POST",
       "/v1/target_scores",
       post_target_scores,
       kComputes,
       "How likely targets are, given their sources",
       {"TargetScoreRequest", "TargetScores"}},
  };
}

std::vector<Route> sound_and_token_routes() {
  const RouteSchemas live{.event = "RealtimeEvent"};
  return {
      {"POST",
       "/v1/audio/transcriptions",
       post_transcriptions,
       kHears,
       "What is said in a file",
       {.request = "SpeechRequest",
        .answer = "Transcription",
        .event = "TranscriptionEvent",
        .other_types = "text/plain text/vtt"}},
      {"POST",
       "/v1/audio/translations",
       post_translations,
       kHears,
       "The same in English",
       {.request = "SpeechRequest",
        .answer = "Transcription",
        .event = "TranscriptionEvent",
        .other_types = "text/plain text/vtt"}},
      {"GET", "/v1/realtime", get_realtime, kLive,
       "A WebSocket: live transcription, by OpenAI's events", live},
      {"POST",
       "/tokenize",
       post_tokenize,
       kAnswers,
       "Token ids of a text",
       {"TokenizeRequest", "Tokens"}},
      {"POST",
       "/detokenize",
       post_detokenize,
       kAnswers,
       "The text of token ids",
       {"DetokenizeRequest", "Text"}},
  };
}

std::vector<Route> status_routes() {
  return {
      {"GET", "/v1/models", get_models, kAnswers, "The model's names", {.answer = "Models"}},
      {"GET", "/v1/models/{model}", get_model, kAnswers, "One of them", {.answer = "Model"}},
      {"GET",
       "/health",
       get_health,
       kOpen,
       "200 while the engine computes, else 503",
       {.answer = "Health"}},
      {"GET", "/ping", get_health, kOpen, "The same", {.answer = "Health"}},
      {"GET", "/live", get_live, kOpen, "200 while the process runs", {.answer = "Health"}},
      {"GET",
       "/v2/health/ready",
       get_health,
       kOpen,
       "KServe's name for /health",
       {.answer = "Health"}},
      {"GET", "/v2/health/live", get_live, kOpen, "KServe's name for /live", {.answer = "Health"}},
      {"GET", "/version", get_version, kAnswers, "Tandem's version", {.answer = "Version"}},
      {"GET",
       "/metrics",
       get_metrics,
       kAnswers,
       "Prometheus metrics",
       {.other_types = "text/plain"}},
      {"GET",
       "/status",
       get_status,
       kAnswers,
       "What the engine does now, as JSON",
       {.answer = "Status"}},
      {"GET",
       "/openapi.json",
       get_openapi,
       kAnswers,
       "This interface as an OpenAPI document",
       {.answer = "OpenApi"}},
      {"GET", "/docs", get_docs, kOpen, "A page that shows it", {.other_types = "text/html"}},
      {"GET",
       "/",
       get_page,
       kOpen,
       "A page to use the model and to watch the engine",
       {.other_types = "text/html"}},
      {"GET",
       "/page/{file}",
       get_page_file,
       kOpen,
       "The scripts and styles of these pages",
       {.other_types = "text/javascript text/css"}},
      {"GET", "/favicon.ico", get_icon, kOpen, "The page's icon", {.other_types = "image/svg+xml"}},
  };
}

}  // namespace

const std::vector<Route>& routes() {
  static const std::vector<Route> all = [] {
    std::vector<Route> list;
    for (const auto& some : {text_routes(), huggingface_routes(), deepl_routes(), document_routes(),
                             glossary_routes(), libretranslate_routes(), scoring_routes(),
                             sound_and_token_routes(), status_routes(), adapter_routes()})
      list.insert(list.end(), some.begin(), some.end());
    return list;
  }();
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
