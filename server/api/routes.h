// Every route of the server on one page (docs/serving.md describes them).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/application.h"
#include "server/http/http.h"

namespace tandem::server {

// Answers, now or later. An InputError becomes an error answer.
using Handler = void (*)(AppContext& app, const std::shared_ptr<Exchange>& exchange);

// Names of schemas (schemas/*.json) for the OpenAPI document; null: there is no such thing.
struct RouteSchemas {
  const char* request = nullptr;  // of the body
  const char* answer = nullptr;   // of an answer that is JSON
  const char* event = nullptr;    // of the data of a stream's events
  const char* error = "Error";
  const char* other_types = "";  // of answers that are not JSON: "text/plain text/vtt"
  bool form = false;             // the body may be application/x-www-form-urlencoded
};

struct Route {
  const char* method;
  std::string_view
      path;  // {model} and {file}, a last part, are any text, slashes included; {id} is one part
  Handler handler;
  enum class Kind {
    kOpen,      // needs no key
    kAnswers,   // this process knows the answer
    kComputes,  // the engine has work with it
    kHears,     // the same, with a form that has a file of sound
    kMayHear,   // of a speech model: the file itself, such a form, or JSON; else JSON
    kReads,     // the same, with a form that has a document
  };
  Kind kind;
  const char* summary;
  RouteSchemas schemas;
  bool key_in_body = false;  // the handler checks it (require_key()), a header's or the body's

  bool open() const { return kind == Kind::kOpen; }
  bool hears() const { return kind == Kind::kHears; }
  bool has_form() const { return hears() || kind == Kind::kReads; }
  bool computes() const { return kind == Kind::kComputes || kind == Kind::kMayHear || has_form(); }
  bool matches(std::string_view request) const;
};
const std::vector<Route>& routes();
// A path as the routes have it: some clients leave out "/v1", Azure's put
// "/openai/deployments/NAME" or "/openai/v1" in its place.
std::string path_of_route(const std::string& path);

// generation_routes.cc
void post_completions(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_chat_completions(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// translation_routes.cc
void post_translate(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_libretranslate(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// responses/responses_routes.cc
void post_responses(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// huggingface/huggingface_routes.cc, huggingface/huggingface_features.cc
void post_huggingface(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_generate(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_generate_stream(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_text_pipeline(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_speech_pipeline(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_feature_extraction(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_info(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// deepl/deepl_routes.cc
void get_deepl_usage(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_deepl_languages(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// deepl/glossary_routes.cc
void get_deepl_glossary_pairs(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_glossary(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_glossaries(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_glossary(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_glossary_entries(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void delete_glossary(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void patch_glossary(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void put_glossary_dictionary(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void delete_glossary_dictionary(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// documents/deepl_documents.cc
void post_document(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_document_status(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_document_result(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// documents/libretranslate_files.cc
void post_translate_file(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_download_file(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// libretranslate/libretranslate_routes.cc
void post_detect(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_libretranslate_languages(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_frontend_settings(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// scoring/embedding_routes.cc
void post_embeddings(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// scoring/score_routes.cc
void post_score(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_rerank(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// scoring/classification_routes.cc
void post_classify(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_predict(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// scoring/target_score_routes.cc
void post_target_scores(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// speech/speech_routes.cc
void post_transcriptions(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_translations(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// token_routes.cc
void post_tokenize(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void post_detokenize(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// status_routes.cc
void get_models(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_model(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_health(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_live(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_version(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_metrics(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_status(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_openapi(AppContext& app, const std::shared_ptr<Exchange>& exchange);
// page_routes.cc
void get_page(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_page_file(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_icon(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_docs(AppContext& app, const std::shared_ptr<Exchange>& exchange);

}  // namespace tandem::server
