// Every route of the server on one page (docs/serving.md describes them).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/api/route.h"

namespace tandem::server {

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
// live/realtime_routes.cc
void get_realtime(AppContext& app, const std::shared_ptr<Exchange>& exchange);
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
// adapter_routes.cc
std::vector<Route> adapter_routes();
// page_routes.cc
void get_page(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_page_file(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_icon(AppContext& app, const std::shared_ptr<Exchange>& exchange);
void get_docs(AppContext& app, const std::shared_ptr<Exchange>& exchange);

}  // namespace tandem::server
