// DeepL's documents: sent, asked after, fetched.
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "server/api/deepl/deepl.h"
#include "server/api/documents/document_form.h"
#include "server/api/documents/document_translation.h"
#include "server/api/fields/form_body.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/translation_job.h"
#include "server/api/routes.h"
#include "server/http/errors.h"

namespace tandem::server {
namespace {

using nlohmann::json;
using Stage = StoredDocument::State;

constexpr const char* kDocumentTexts[] = {"document_key"};

// What belongs to texts, not to files.
void refuse_text_fields(const json& fields) {
  for (const char* name : {"text", "tag_handling", "split_sentences", "show_billed_characters"})
    if (fields.contains(name)) throw invalid_request(name, "is of texts, not of documents");
}

void check_output_format(json& fields, const DocumentForm& form) {
  const auto asked = take_string(fields, "output_format");
  if (!asked || asked->empty()) return;
  const auto format = document_format_of_file("x." + *asked);
  if (!format || *format != form.format)
    throw not_supported("output_format", "\"" + asked->substr(0, 40) +
                                             "\": a document keeps its format, which is " +
                                             std::string(name_of(form.format)));
}

// Of "/v2/document/{id}" and "/v2/document/{id}/result", with the key that the body has.
StoredDocument asked_document(AppContext& app, const HttpRequest& request) {
  constexpr size_t kBegin = std::string_view("/v2/document/").size();
  const std::string id = request.path.substr(kBegin, request.path.find('/', kBegin) - kBegin);
  json body = parse_form_or_json(request, {{}, kDocumentTexts, {}});
  const auto key = take_string(body, "document_key");
  if (!key) throw invalid_request("document_key", "is missing");
  auto document = app.documents.find(id);
  if (!document || document->key != *key)
    throw InputError(ErrorKind::kNotFound,
                     "document_id: there is no such document, or its key is another, or it has "
                     "been dropped",
                     "document_id");
  return std::move(*document);
}

std::string message_of(const HttpResponse& error) {
  const Json body = json_or_discarded<Json>(error.body);
  if (!body.is_object() || !body.contains("error") || !body["error"].is_object()) return "an error";
  return body["error"].value("message", "an error");
}

}  // namespace

void post_document(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  DocumentForm form = read_document_form(exchange->request(), app.config.max_body_bytes);
  json body = std::move(form.fields);
  refuse_text_fields(body);
  check_output_format(body, form);
  body["text"] = std::move(form.bytes);
  const LanguageSet& languages = app.tokenizer.languages();
  FieldNames names;
  names.add("text", "file");
  names.add("text[0]", "file");
  GenerationRequest request = names.around([&] {
    detect_source(body, languages, form.format);
    return parse_translation(
        std::move(body), {app.config, languages, app.glossaries, app.fixed_languages, form.format});
  });
  names.add(request.names);
  request.names = names;
  const StoredDocument document = begin_document(app, form, request);
  const auto background = std::make_shared<FileExchange>(
      exchange,
      FileExchange::Callbacks{
          [&app, id = document.id](std::string text) { app.documents.finish(id, std::move(text)); },
          [&app, id = document.id](HttpResponse error) {
            app.documents.fail(id, message_of(error));
          }},
      /*background=*/true);
  start_document(app, document, background, std::move(request));
  exchange->respond(
      {.body = dump_ordered_line({{"document_id", document.id}, {"document_key", document.key}})});
}

void post_document_status(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const StoredDocument document = asked_document(app, exchange->request());
  Json body = {{"document_id", document.id}};
  switch (document.state) {
    case Stage::kTranslating:
      body["status"] = "translating";
      body["seconds_remaining"] = 1;
      break;
    case Stage::kDone:
      body["status"] = "done";
      body["billed_characters"] = document.characters;
      break;
    case Stage::kFailed:
      body["status"] = "error";
      body["error_message"] = document.error;
      break;
  }
  exchange->respond({.body = dump_ordered_line(body)});
}

void post_document_result(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const StoredDocument document = asked_document(app, exchange->request());
  if (document.state == Stage::kTranslating)
    return exchange->respond(error_response(503, "the document is still being translated"));
  if (document.state == Stage::kFailed)
    throw invalid_request("document_id", "the translation has failed: " + document.error);
  exchange->respond(file_answer(document));
}

}  // namespace tandem::server
