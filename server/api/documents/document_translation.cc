#include "server/api/documents/document_translation.h"

#include <utility>

#include "server/api/generation/translation_job.h"

namespace tandem::server {

StoredDocument begin_document(AppContext& app, const DocumentForm& form,
                              const GenerationRequest& request) {
  StoredDocument document;
  document.file = safe_file_name(form.file);
  document.media_type = media_type_of(form.format);
  document.characters = request.characters.at(0);
  return app.documents.begin(std::move(document));
}

void start_document(AppContext& app, const StoredDocument& document,
                    const std::shared_ptr<FileExchange>& file, GenerationRequest request) {
  try {
    start_translation(app, file, std::move(request));
  } catch (...) {
    app.documents.erase(document.id);
    throw;
  }
}

HttpResponse file_answer(const StoredDocument& document) {
  return {.body = *document.result,
          .content_type = document.media_type,
          .headers = {{"content-disposition", "attachment; filename=\"" + document.file + "\""}}};
}

}  // namespace tandem::server
