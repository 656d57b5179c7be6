// LibreTranslate's interface, as its clients use it: fields, codes of languages, answers, errors.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/api/fixed_languages.h"
#include "server/http/config.h"
#include "server/http/http.h"
#include "text/language_detector.h"
#include "text/languages.h"

namespace tandem::server {

// Whether a path is one of LibreTranslate's interface.
bool is_libretranslate_path(std::string_view path);
// An error of such a path is {"error": "a text"}.
void as_libretranslate_error(const HttpRequest& request, HttpResponse& response);

// The body, JSON or a form, without the key, which may stand there (api_key). Nothing: the key is
// missing or wrong, and that has been answered. Throws InputError.
std::optional<nlohmann::json> parse_libretranslate_body(const ServerConfig& config,
                                                        Exchange& exchange);

// What an answer needs to know of its request.
struct LibreTranslateOptions {
  bool list = false;                              // q is a list, and so is what is answered
  int alternatives = 0;                           // beside the first, of each text
  std::optional<DetectedLanguage> detected = {};  // with source "auto"
};

// q, source, target, format, alternatives and api_key of a body → the fields of a translation
// (parse_translation()); what else is in the body stays. Throws InputError naming the field.
LibreTranslateOptions take_libretranslate_fields(nlohmann::json& body, const LanguageSet& languages,
                                                 const FixedLanguages& fixed);

// texts: of each q, the first and its alternatives.
nlohmann::ordered_json libretranslate_answer(const LibreTranslateOptions& options,
                                             const std::vector<std::string>& texts);

struct LibreTranslateLanguage {
  std::string code;  // "en", "zh-Hant"
  std::string name;  // in English
};
// By its code: "de" → {"de", "German"}.
LibreTranslateLanguage libretranslate_language(const std::string& code);
// Those that the model has, in the order of their names.
std::vector<LibreTranslateLanguage> libretranslate_languages(const LanguageSet& languages);

// The languages of a text, or of all texts of a list, that the model has, the likeliest first, by
// LibreTranslate's codes. What is no text counts for nothing.
std::vector<DetectedLanguage> detect_known_languages(const nlohmann::json& texts,
                                                     const LanguageSet& languages,
                                                     const FixedLanguages& fixed = {});

}  // namespace tandem::server
