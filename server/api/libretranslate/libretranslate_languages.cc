#include <algorithm>
#include <tuple>

#include "base/error.h"
#include "server/api/libretranslate/libretranslate.h"
#include "text/language_names.h"

namespace tandem::server {
namespace {

// The shortest code that means this name of the model.
std::string code_of(const LanguageSet& languages, const std::string& name) {
  const auto tag = tag_of_code(name);
  if (!tag) return name;
  if (languages.meant(tag->language) == name) return tag->language;
  const std::string with_script = tag->language + "-" + tag->usual_script();
  if (languages.meant(with_script) == name) return with_script;
  return name;
}

std::string all_of(const nlohmann::json& texts) {
  if (texts.is_string()) return texts.get<std::string>();
  std::string out;
  if (texts.is_array())
    for (const nlohmann::json& text : texts)
      if (text.is_string()) out += text.get_ref<const std::string&>() + "\n";
  return out;
}

}  // namespace

LibreTranslateLanguage libretranslate_language(const std::string& code) {
  return {code, english_name_of(code)};
}

std::vector<LibreTranslateLanguage> libretranslate_languages(const LanguageSet& languages) {
  std::vector<LibreTranslateLanguage> out;
  for (const std::string& name : languages.names()) {
    const std::string code = code_of(languages, name);
    out.push_back(libretranslate_language(code));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::tie(a.name, a.code) < std::tie(b.name, b.code);
  });
  return out;
}

std::vector<DetectedLanguage> detect_known_languages(const nlohmann::json& texts,
                                                     const LanguageSet& languages,
                                                     const FixedLanguages& fixed) {
  std::vector<DetectedLanguage> out;
  for (const DetectedLanguage& language : detect_languages(all_of(texts)))
    if (const auto name = languages.meant(language.code))
      out.push_back({code_of(languages, *name), language.confidence});
    else if (fixed.has(language.code))
      out.push_back(language);
  return out;
}

}  // namespace tandem::server
