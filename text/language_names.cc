// What names of languages mean. Whisper's are as HuggingFace has them (TO_LANGUAGE_CODE); ICU has
// the others, and says which codes are one language.
#include "text/language_names.h"

#include <unicode/locdspnm.h>
#include <unicode/locid.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <iterator>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace tandem {
namespace {

constexpr size_t kLongestName = 64;  // bytes

struct Name {
  std::string_view name, code;
};

// clang-format off
// Of a language with several names the usual one first.
constexpr Name kNames[] = {
    {"english", "en"}, {"chinese", "zh"}, {"german", "de"}, {"spanish", "es"}, {"russian", "ru"},
    {"korean", "ko"}, {"french", "fr"}, {"japanese", "ja"}, {"portuguese", "pt"},
    {"turkish", "tr"}, {"polish", "pl"}, {"catalan", "ca"}, {"dutch", "nl"}, {"arabic", "ar"},
    {"swedish", "sv"}, {"italian", "it"}, {"indonesian", "id"}, {"hindi", "hi"}, {"finnish", "fi"},
    {"vietnamese", "vi"}, {"hebrew", "he"}, {"ukrainian", "uk"}, {"greek", "el"}, {"malay", "ms"},
    {"czech", "cs"}, {"romanian", "ro"}, {"danish", "da"}, {"hungarian", "hu"}, {"tamil", "ta"},
    {"norwegian", "no"}, {"thai", "th"}, {"urdu", "ur"}, {"croatian", "hr"}, {"bulgarian", "bg"},
    {"lithuanian", "lt"}, {"latin", "la"}, {"maori", "mi"}, {"malayalam", "ml"}, {"welsh", "cy"},
    {"slovak", "sk"}, {"telugu", "te"}, {"persian", "fa"}, {"latvian", "lv"}, {"bengali", "bn"},
    {"serbian", "sr"}, {"azerbaijani", "az"}, {"slovenian", "sl"}, {"kannada", "kn"},
    {"estonian", "et"}, {"macedonian", "mk"}, {"breton", "br"}, {"basque", "eu"},
    {"icelandic", "is"}, {"armenian", "hy"}, {"nepali", "ne"}, {"mongolian", "mn"},
    {"bosnian", "bs"}, {"kazakh", "kk"}, {"albanian", "sq"}, {"swahili", "sw"}, {"galician", "gl"},
    {"marathi", "mr"}, {"punjabi", "pa"}, {"sinhala", "si"}, {"khmer", "km"}, {"shona", "sn"},
    {"yoruba", "yo"}, {"somali", "so"}, {"afrikaans", "af"}, {"occitan", "oc"}, {"georgian", "ka"},
    {"belarusian", "be"}, {"tajik", "tg"}, {"sindhi", "sd"}, {"gujarati", "gu"}, {"amharic", "am"},
    {"yiddish", "yi"}, {"lao", "lo"}, {"uzbek", "uz"}, {"faroese", "fo"}, {"haitian creole", "ht"},
    {"pashto", "ps"}, {"turkmen", "tk"}, {"nynorsk", "nn"}, {"maltese", "mt"}, {"sanskrit", "sa"},
    {"luxembourgish", "lb"}, {"myanmar", "my"}, {"tibetan", "bo"}, {"tagalog", "tl"},
    {"malagasy", "mg"}, {"assamese", "as"}, {"tatar", "tt"}, {"hawaiian", "haw"},
    {"lingala", "ln"}, {"hausa", "ha"}, {"bashkir", "ba"}, {"javanese", "jw"}, {"sundanese", "su"},
    {"cantonese", "yue"}, {"burmese", "my"}, {"valencian", "ca"}, {"flemish", "nl"},
    {"haitian", "ht"}, {"letzeburgesch", "lb"}, {"pushto", "ps"}, {"panjabi", "pa"},
    {"moldavian", "ro"}, {"moldovan", "ro"}, {"sinhalese", "si"}, {"castilian", "es"},
    {"mandarin", "zh"},
};
// clang-format on

// Names and codes that neither has.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"farsi", "fa"},  {"dari", "fa-AF"}, {"bokmål", "nb"},    {"bokmal", "nb"},
    {"oriya", "or"},  {"sorani", "ckb"}, {"kurmanji", "kmr"}, {"norwegian bokmal", "nb"},
    {"sepedi", "nso"}};
constexpr std::pair<std::string_view, std::string_view> kOtherCodes[] = {
    {"ns", "nso"}, {"pbt", "ps"}, {"pbu", "ps"}, {"quy", "qu"}};
// What ICU has another name for than the language's.
constexpr const char* kVarieties[] = {"zh_Hans", "zh_Hant", "pt_BR", "pt_PT", "en_US", "en_GB",
                                      "fr_CA",   "fr_FR",   "es_ES", "es_MX", "de_AT", "de_CH"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool all_letters(std::string_view text) { return std::all_of(text.begin(), text.end(), is_letter); }

std::string lower(std::string_view text) {
  std::string out;
  icu::UnicodeString::fromUTF8(icu::StringPiece(text.data(), static_cast<int32_t>(text.size())))
      .toLower(icu::Locale::getRoot())
      .toUTF8String(out);
  return out;
}
std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (size_t at = 0;;) {
    const size_t end = std::min(text.find_first_of("-_", at), text.size());
    out.push_back(text.substr(at, end - at));
    if (end == text.size()) return out;
    at = end + 1;
  }
}

// The language of a code of two or three letters: "deu" and "ger" are "de", "cmn" is "zh", "prs" is
// "fa" in AF.
LanguageTag canonical(std::string code) {
  const auto other = std::find_if(std::begin(kOtherCodes), std::end(kOtherCodes),
                                  [&](const auto& known) { return known.first == code; });
  if (other != std::end(kOtherCodes)) code = other->second;
  icu::Locale locale(code.c_str());
  UErrorCode error = U_ZERO_ERROR;
  locale.canonicalize(error);
  if (U_FAILURE(error) || *locale.getLanguage() == 0) return {std::move(code), "", ""};
  return {locale.getLanguage(), locale.getScript(), locale.getCountry()};
}

using Names = std::map<std::string, LanguageTag>;

void add_name(const icu::UnicodeString& name, const char* code, Names& out) {
  std::string text;
  name.toUTF8String(text);
  const auto tag = tag_of_code(code);
  if (tag && text.size() > 3 && text != code) out.emplace(lower(text), *tag);
}

Names english_names() {
  Names out;
  for (const Name& known : kNames) out.emplace(known.name, *tag_of_code(known.code));
  for (const auto& [name, code] : kOtherNames) out.emplace(name, *tag_of_code(code));
  icu::UnicodeString text;
  for (const char* const* code = icu::Locale::getISOLanguages(); *code != nullptr; ++code) {
    icu::Locale(*code).getDisplayLanguage(icu::Locale::getEnglish(), text);
    add_name(text, *code, out);
  }
  for (const UDialectHandling how : {ULDN_STANDARD_NAMES, ULDN_DIALECT_NAMES}) {
    const std::unique_ptr<icu::LocaleDisplayNames> names(
        icu::LocaleDisplayNames::createInstance(icu::Locale::getEnglish(), how));
    for (const char* code : kVarieties)
      if (names) add_name(names->localeDisplayName(code, text), code, out);
  }
  return out;
}

// ISO 639-5's families, and ISO 639-2's codes for several languages, an unknown one or none.
constexpr std::string_view kGroups[] = {
    "aav", "afa", "alg", "alv", "apa", "aqa", "aql", "art", "ath", "auf", "aus", "awd",
    "azc", "bad", "bai", "bat", "ber", "bih", "bnt", "btk", "cai", "cau", "cba", "ccn",
    "ccs", "cdc", "cdd", "cel", "cmc", "cpe", "cpf", "cpp", "crp", "csu", "cus", "day",
    "dmn", "dra", "egx", "esx", "euq", "fiu", "fox", "gem", "gme", "gmq", "gmw", "grk",
    "hmx", "hok", "hyx", "iir", "ijo", "inc", "ine", "ira", "iro", "itc", "jpx", "kar",
    "kdo", "khi", "kro", "map", "mis", "mkh", "mno", "mul", "mun", "myn", "nah", "nai",
    "ngf", "nic", "nub", "omq", "omv", "oto", "paa", "phi", "plf", "poz", "pqe", "pqw",
    "pra", "qwe", "roa", "sai", "sal", "sdv", "sem", "sgn", "sio", "sit", "sla", "smi",
    "son", "sqj", "ssa", "syd", "tai", "tbq", "trk", "tup", "tut", "tuw", "und", "urj",
    "wak", "wen", "xgn", "xnd", "ypk", "zhx", "zle", "zls", "zlw", "znd", "zxx"};

}  // namespace

std::string LanguageTag::usual_script() const {
  if (!script.empty()) return script;
  icu::Locale locale(language.c_str(), region.c_str());
  UErrorCode error = U_ZERO_ERROR;
  locale.addLikelySubtags(error);
  return U_FAILURE(error) ? std::string() : locale.getScript();
}

std::optional<LanguageTag> tag_of_code(std::string_view code) {
  if (code.size() > kLongestName) return std::nullopt;
  std::vector<std::string_view> parts = parts_of(code);
  if (parts.size() > 1 && parts[1].size() == 3 && all_letters(parts[1]))  // zh-yue
    parts.erase(parts.begin());
  if (parts[0].size() < 2 || parts[0].size() > 3 || !all_letters(parts[0])) return std::nullopt;
  LanguageTag out = canonical(lower(parts[0]));
  size_t at = 1;
  if (at < parts.size() && parts[at].size() == 4 && all_letters(parts[at])) {
    out.script = upper(parts[at].substr(0, 1)) + lower(parts[at].substr(1));
    ++at;
  }
  if (at < parts.size()) {
    const std::string_view region = parts[at++];
    const bool digits = region.size() == 3 && std::all_of(region.begin(), region.end(), is_digit);
    if (!digits && (region.size() != 2 || !all_letters(region))) return std::nullopt;
    if (upper(region) != "XX") out.region = upper(region);  // mBART's: none
  }
  return at == parts.size() ? std::optional(out) : std::nullopt;
}

std::optional<LanguageTag> language_tag(std::string_view name) {
  if (name.size() > kLongestName) return std::nullopt;
  if (auto tag = tag_of_code(name)) return tag;
  static const Names names = english_names();
  const auto it = names.find(lower(name));
  return it == names.end() ? std::nullopt : std::optional(it->second);
}

std::string language_code(std::string_view name) {
  if (name.size() > kLongestName) return {};
  const std::string small = lower(name);
  for (const Name& known : kNames)
    if (known.name == small || known.code == small) return std::string(known.code);
  const auto tag = language_tag(name);
  if (!tag) return {};
  const std::string language = tag->language == "nb" ? "no" : tag->language;
  for (const Name& known : kNames)
    if (canonical(std::string(known.code)).language == language) return std::string(known.code);
  return {};
}

std::string language_name(std::string_view code) {
  const auto it = std::find_if(std::begin(kNames), std::end(kNames),
                               [&](const Name& known) { return known.code == code; });
  return std::string(it == std::end(kNames) ? code : it->name);
}

bool is_language_group(std::string_view code) {
  return std::binary_search(std::begin(kGroups), std::end(kGroups), code);
}

std::string one_language(std::string_view code) {
  const auto tag = tag_of_code(code);
  return tag && !is_language_group(tag->language) ? tag->language : "";
}

std::string english_name_of(const std::string& code) {
  icu::UnicodeString name;
  icu::Locale(code.c_str()).getDisplayName(icu::Locale::getEnglish(), name);
  std::string out;
  name.toUTF8String(out);
  return out.empty() ? code : out;
}

std::string language_code_of_token(std::string_view token) {
  return std::string(token.size() > 4 ? token.substr(2, token.size() - 4) : token);
}

}  // namespace tandem
