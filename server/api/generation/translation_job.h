// What routes of texts and of files share.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "server/api/application.h"
#include "server/api/generation/generation_request.h"
#include "server/http/http.h"

namespace tandem::server {

// DeepL finds out what language texts are in, where nobody says so. What cannot be told is in the
// model's own source language. format: of a file; nothing: the body's tag_handling says it.
void detect_source(nlohmann::json& body, const LanguageSet& languages,
                   std::optional<DocumentFormat> format);
// The body as /translate has it, without its key.
GenerationRequest parse_libretranslate(AppContext& app, nlohmann::json body,
                                       std::optional<DocumentFormat> format);
// Computes and answers. Throws InputError.
void start_translation(AppContext& app, const std::shared_ptr<Exchange>& exchange,
                       GenerationRequest request);

}  // namespace tandem::server
