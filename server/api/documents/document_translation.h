// The translation of a file, from its form to the stored result: what DeepL's and LibreTranslate's
// routes share.
#pragma once

#include <memory>

#include "server/api/application.h"
#include "server/api/documents/document_form.h"
#include "server/api/documents/document_store.h"
#include "server/api/documents/file_exchange.h"
#include "server/api/generation/generation_request.h"
#include "server/http/http.h"

namespace tandem::server {

// The form's file, under way in the store. Throws InputError where there is no room.
StoredDocument begin_document(AppContext& app, const DocumentForm& form,
                              const GenerationRequest& request);
// Computes it. Throws InputError; then the store has the document no more.
void start_document(AppContext& app, const StoredDocument& document,
                    const std::shared_ptr<FileExchange>& file, GenerationRequest request);
// The translated file. document.result is there.
HttpResponse file_answer(const StoredDocument& document);

}  // namespace tandem::server
