// The needs of DeepL's clients beyond a route for translations: fields, names of languages, forms,
// the shape of errors.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/http/http.h"
#include "text/documents/document_format.h"
#include "text/documents/readers/document_readers.h"
#include "text/languages.h"

namespace tandem::server {

// Whether a path is one of DeepL's interface, also where this server has no such route.
bool is_deepl_path(std::string_view path);
// Adds DeepL's "message" beside OpenAI's "error" to an error of such a path, and replaces 401 by
// 403.
void as_deepl_error(const HttpRequest& request, HttpResponse& response);

// The body of a translation: JSON, or fields of an application/x-www-form-urlencoded form, of which
// `text` may stand there several times. Throws InputError.
nlohmann::json parse_deepl_body(const HttpRequest& request);

// DeepL's fields besides the model's.
struct DeeplOptions {
  bool show_billed_characters = true;
  std::string model_type;  // for the answer's model_type_used; empty: it was not asked for
  std::optional<DocumentFormat> format = {};  // of the texts: tag_handling
  TagRules tags = {};
  bool sentences = true;         // of texts with markup: each by itself
  std::string glossary_id = {};  // empty: none
};
// Takes them out of the body. Ignores fields without effect here. Throws InputError naming a field
// that asks for an unsupported feature.
DeeplOptions take_deepl_options(nlohmann::json& body);

struct DeeplLanguage {
  std::string_view code, name;
};
// DeepL's languages that the model has, as sources or as targets (those with their variants).
std::vector<DeeplLanguage> deepl_languages(const LanguageSet& languages, bool targets);
// The code of a source language by the model's name of it: "EN" of "eng_Latn". One that DeepL does
// not know keeps its own, in DeepL's spelling.
std::string deepl_code(const LanguageSet& languages, const std::string& name);

}  // namespace tandem::server
