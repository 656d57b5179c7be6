// DeepL's codes; what they mean for a model is text/languages.h's.
#include <algorithm>
#include <cctype>
#include <iterator>

#include "server/api/deepl/deepl.h"

namespace tandem::server {
namespace {

// clang-format off
constexpr DeeplLanguage kLanguages[] = {
    {"ACE", "Acehnese"}, {"AF", "Afrikaans"}, {"AN", "Aragonese"}, {"AR", "Arabic"},
    {"AS", "Assamese"}, {"AY", "Aymara"}, {"AZ", "Azerbaijani"}, {"BA", "Bashkir"},
    {"BE", "Belarusian"}, {"BG", "Bulgarian"}, {"BHO", "Bhojpuri"}, {"BN", "Bengali"},
    {"BR", "Breton"}, {"BS", "Bosnian"}, {"CA", "Catalan"}, {"CEB", "Cebuano"},
    {"CKB", "Kurdish (Sorani)"}, {"CS", "Czech"}, {"CY", "Welsh"}, {"DA", "Danish"},
    {"DE", "German"}, {"EL", "Greek"}, {"EN", "English"}, {"EO", "Esperanto"}, {"ES", "Spanish"},
    {"ET", "Estonian"}, {"EU", "Basque"}, {"FA", "Persian"}, {"FI", "Finnish"}, {"FR", "French"},
    {"GA", "Irish"}, {"GL", "Galician"}, {"GN", "Guarani"}, {"GOM", "Konkani"},
    {"GU", "Gujarati"}, {"HA", "Hausa"}, {"HE", "Hebrew"}, {"HI", "Hindi"}, {"HR", "Croatian"},
    {"HT", "Haitian Creole"}, {"HU", "Hungarian"}, {"HY", "Armenian"}, {"ID", "Indonesian"},
    {"IG", "Igbo"}, {"IS", "Icelandic"}, {"IT", "Italian"}, {"JA", "Japanese"},
    {"JV", "Javanese"}, {"KA", "Georgian"}, {"KK", "Kazakh"}, {"KMR", "Kurdish (Kurmanji)"},
    {"KO", "Korean"}, {"KY", "Kyrgyz"}, {"LA", "Latin"}, {"LB", "Luxembourgish"},
    {"LMO", "Lombard"}, {"LN", "Lingala"}, {"LT", "Lithuanian"}, {"LV", "Latvian"},
    {"MAI", "Maithili"}, {"MG", "Malagasy"}, {"MI", "Maori"}, {"MK", "Macedonian"},
    {"ML", "Malayalam"}, {"MN", "Mongolian"}, {"MR", "Marathi"}, {"MS", "Malay"},
    {"MT", "Maltese"}, {"MY", "Burmese"}, {"NB", "Norwegian (bokmål)"}, {"NE", "Nepali"},
    {"NL", "Dutch"}, {"OC", "Occitan"}, {"OM", "Oromo"}, {"PA", "Punjabi"}, {"PAG", "Pangasinan"},
    {"PAM", "Kapampangan"}, {"PL", "Polish"}, {"PRS", "Dari"}, {"PS", "Pashto"},
    {"PT", "Portuguese"}, {"QU", "Quechua"}, {"RO", "Romanian"}, {"RU", "Russian"},
    {"SA", "Sanskrit"}, {"SCN", "Sicilian"}, {"SK", "Slovak"}, {"SL", "Slovenian"},
    {"SQ", "Albanian"}, {"SR", "Serbian"}, {"ST", "Sesotho"}, {"SU", "Sundanese"},
    {"SV", "Swedish"}, {"SW", "Swahili"}, {"TA", "Tamil"}, {"TE", "Telugu"}, {"TG", "Tajik"},
    {"TH", "Thai"}, {"TK", "Turkmen"}, {"TL", "Tagalog"}, {"TN", "Tswana"}, {"TR", "Turkish"},
    {"TS", "Tsonga"}, {"TT", "Tatar"}, {"UK", "Ukrainian"}, {"UR", "Urdu"}, {"UZ", "Uzbek"},
    {"VI", "Vietnamese"}, {"WO", "Wolof"}, {"XH", "Xhosa"}, {"YI", "Yiddish"},
    {"YUE", "Cantonese"}, {"ZH", "Chinese"}, {"ZU", "Zulu"}};
// Of targets.
constexpr DeeplLanguage kVariants[] = {
    {"EN-GB", "English (British)"}, {"EN-US", "English (American)"},
    {"ES-419", "Spanish (Latin American)"}, {"PT-BR", "Portuguese (Brazilian)"},
    {"PT-PT", "Portuguese (European)"}, {"ZH-HANS", "Chinese (simplified)"},
    {"ZH-HANT", "Chinese (traditional)"}};
// clang-format on

// DeepL has these as sources only: its clients say which variant they want.
bool is_source_only(std::string_view code) { return code == "EN" || code == "PT"; }

std::string_view base_of(std::string_view code) { return code.substr(0, code.find('-')); }

}  // namespace

std::vector<DeeplLanguage> deepl_languages(const LanguageSet& languages, bool targets) {
  std::vector<DeeplLanguage> out;
  for (const DeeplLanguage& language : kLanguages) {
    if (!(targets && is_source_only(language.code)) && languages.meant(language.code))
      out.push_back(language);
    if (!targets) continue;
    for (const DeeplLanguage& variant : kVariants)
      if (base_of(variant.code) == language.code && languages.meant(variant.code))
        out.push_back(variant);
  }
  return out;
}

std::string deepl_code(const LanguageSet& languages, const std::string& name) {
  const auto is_it = [&](const DeeplLanguage& language) {
    return languages.meant(language.code) == name;
  };
  const auto it = std::find_if(std::begin(kLanguages), std::end(kLanguages), is_it);
  if (it != std::end(kLanguages)) return std::string(it->code);
  const auto variant = std::find_if(std::begin(kVariants), std::end(kVariants), is_it);
  if (variant != std::end(kVariants)) return std::string(base_of(variant->code));
  std::string out = name;
  for (char& c : out)
    c = c == '_' ? '-' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace tandem::server
