// Prompts whose image is a document: a prompt for each page.
#pragma once

#include "server/api/generation/generation_request.h"

namespace tandem::server {

// Takes "pages" ("1-3,7") and "dpi" out of the body.
void take_page_options(nlohmann::json& body, GenerationRequest& r);

bool has_documents(const GenerationRequest& r);
// Puts pages, in their order, in the place of documents. Waits for decoders. Throws InputError
// (field): a document cannot be read, or there are more prompts than the server takes at once, or
// more than kMostPageBytes.
void replace_documents(GenerationRequest& r, const ServerConfig& config);

inline constexpr size_t kMostPageBytes = size_t{256} << 20;  // of a request's pages, as PNG files

}  // namespace tandem::server
