// LibreTranslate's files: sent, and fetched from the address that the answer names.
#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "server/api/api_key.h"
#include "server/api/documents/document_form.h"
#include "server/api/documents/document_translation.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/translation_job.h"
#include "server/api/routes.h"
#include "server/http/errors.h"

namespace tandem::server {
namespace {

std::string address_of(const AppContext& app, const HttpRequest& request,
                       const StoredDocument& document) {
  const std::string* host = request.header("host");
  return std::string(request.secure ? "https://" : "http://") +
         (host != nullptr ? *host : "localhost") + app.config.root_path + "/download_file/" +
         document.id + "." + document.file;
}

}  // namespace

void post_translate_file(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  DocumentForm form = read_document_form(exchange->request(), app.config.max_body_bytes);
  nlohmann::json body = std::move(form.fields);
  const auto key = take_string(body, "api_key");
  if (!has_key(app.config, exchange->request()) && !is_key(app.config, key.value_or("")))
    return exchange->respond(error_response(401, kWrongKeyInBody));
  for (const char* name : {"q", "format", "alternatives"})
    if (body.contains(name)) throw invalid_request(name, "is of texts, not of files");
  body["q"] = std::move(form.bytes);
  FieldNames names;
  names.add("text[0]", "file");
  names.add("q", "file");
  GenerationRequest request =
      names.around([&] { return parse_libretranslate(app, std::move(body), form.format); });
  names.add(request.names);
  request.names = names;
  const StoredDocument document = begin_document(app, form, request);
  const auto file = std::make_shared<FileExchange>(
      exchange,
      FileExchange::Callbacks{
          [&app, exchange, document](std::string text) {
            app.documents.finish(document.id, std::move(text));
            exchange->respond(
                {.body = dump_ordered_line(
                     {{"translatedFileUrl", address_of(app, exchange->request(), document)}})});
          },
          [&app, exchange, id = document.id](HttpResponse error) {
            app.documents.erase(id);
            exchange->respond(std::move(error));
          }},
      /*background=*/false);
  start_document(app, document, file, std::move(request));
}

void get_download_file(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const std::string name = exchange->request().path.substr(std::string("/download_file/").size());
  const auto document = app.documents.find(name.substr(0, name.find('.')));
  if (!document || !document->result || name != document->id + "." + document->file)
    return exchange->respond(error_response(404, "there is no such file, or it has been dropped"));
  exchange->respond(file_answer(*document));
}

}  // namespace tandem::server
