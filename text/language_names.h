// Names of languages as people write them: in English, or as codes of ISO 639. A code may have a
// script or a country, as in BCP 47 or HuggingFace's spellings. ICU knows most of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem {

// The meaning of a name. Names of the same language have the same `language`.
struct LanguageTag {
  std::string language;  // two letters where ISO 639-1 has them: "zh" for "zho" and "cmn"
  std::string script;    // as "Hans"; empty: not said
  std::string region;    // as "BR"; empty: not said

  // The script; if it is not given, the usual one of the language in the region. Empty: not known.
  std::string usual_script() const;
};

// Of a code: "en", "EN-us", "eng_Latn", "en_XX", "zh-Hant-TW". Nothing: another text.
std::optional<LanguageTag> tag_of_code(std::string_view code);
// Whether a code names no single language: "roa" (the Romance ones), "mul", "und".
bool is_language_group(std::string_view code);
// The code of the one language that a code names: "de" of "deu_Latn". Empty: of none, or several.
std::string one_language(std::string_view code);
// Of a code or an English name: "german", "Traditional Chinese".
std::optional<LanguageTag> language_tag(std::string_view name);

// Of a spoken language, by the codes that HuggingFace has for Whisper (TO_LANGUAGE_CODE).
// "german", "German", "de", "deu" or "de-AT" → "de"; empty: no language of that name.
std::string language_code(std::string_view name);
// "de" → "german"; a code without a name is its own.
std::string language_name(std::string_view code);
// As ICU writes it: "de" → "German", "zh-Hant" → "Chinese (Traditional)"; else the code itself.
std::string english_name_of(const std::string& code);
// "<|de|>", the token of a language → "de".
std::string language_code_of_token(std::string_view token);

}  // namespace tandem
