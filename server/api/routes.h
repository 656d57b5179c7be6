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

struct Route {
  const char* method;
  std::string_view path;  // {model}, its last part, is any text, slashes included; {id} is one part
  Handler handler;
  enum class Kind {
    kOpen,      // needs no key
    kAnswers,   // this process knows the answer
    kComputes,  // the engine has work with it
    kHears,     // the same, with a form that has a file of sound
    kReads,     // the same, with a form that has a document
  };
  Kind kind;
  const char* summary;
  bool key_in_body = false;  // the handler checks it (require_key()), a header's or the body's

  bool open() const { return kind == Kind::kOpen; }
  bool hears() const { return kind == Kind::kHears; }
  bool has_form() const { return hears() || kind == Kind::kReads; }
  bool computes() const { return kind == Kind::kComputes || has_form(); }
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
void get_icon(AppContext& app, const std::shared_ptr<Exchange>& exchange);

}  // namespace tandem::server
