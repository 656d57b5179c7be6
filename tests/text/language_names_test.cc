// What names of languages mean, and Whisper's names of spoken ones.
#include "text/language_names.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace tandem {
namespace {

TEST(LanguageNames, CodesOfOneLanguage) {
  for (const char* code : {"zh", "ZH", "zho", "chi", "cmn", "cmn_Hans", "zh-TW"})
    EXPECT_EQ(tag_of_code(code)->language, "zh") << code;
  EXPECT_EQ(tag_of_code("zh-TW")->usual_script(), "Hant");
  EXPECT_EQ(tag_of_code("zh")->usual_script(), "Hans");
  EXPECT_EQ(tag_of_code("eng_latn")->script, "Latn");
  EXPECT_EQ(tag_of_code("en_XX")->region, "");
  EXPECT_EQ(tag_of_code("en-us")->region, "US");
  EXPECT_EQ(tag_of_code("es-419")->region, "419");
  EXPECT_EQ(tag_of_code("zh-yue")->language, "yue");
  EXPECT_EQ(tag_of_code("zsm_Latn")->language, "ms");
  for (const char* text :
       {"", "e", "engl", "e1", "en_", "_en", "en-US-x", "en Latn", "java", "日本"})
    EXPECT_FALSE(tag_of_code(text)) << text;
}

TEST(LanguageNames, SpokenOnes) {
  const std::pair<const char*, const char*> cases[] = {
      {"german", "de"},     {"German", "de"},  {"de", "de"},      {"DE", "de"},
      {"deu", "de"},        {"ger", "de"},     {"de-AT", "de"},   {"de_DE", "de"},
      {"deu_Latn", "de"},   {"zh-TW", "zh"},   {"zh-Hant", "zh"}, {"mandarin", "zh"},
      {"cantonese", "yue"}, {"yue-HK", "yue"}, {"nb", "no"},      {"nn", "nn"},
      {"jv", "jw"},         {"fil", "tl"},     {"tagalog", "tl"}, {"iw", "he"},
      {"EN-GB", "en"},      {"pt-BR", "pt"},   {"haw", "haw"},    {"Burmese", "my"}};
  for (const auto& [name, code] : cases) EXPECT_EQ(language_code(name), code) << name;
  for (const char* name : {"", "klingon", "xx", "zulu", "<|de|>"})
    EXPECT_EQ(language_code(name), "") << name;
  EXPECT_EQ(language_code(std::string(100000, 'd')), "");
  EXPECT_EQ(language_name("de"), "german");
  EXPECT_EQ(language_name("jw"), "javanese");
}

TEST(LanguageNames, Groups) {
  for (const char* code : {"aav", "roa", "gmq", "mul", "und", "zxx", "znd"})
    EXPECT_TRUE(is_language_group(code)) << code;
  for (const char* code : {"en", "eng", "guw", "ase", "", "romance"})
    EXPECT_FALSE(is_language_group(code)) << code;
}

TEST(LanguageNames, InEnglish) {
  EXPECT_EQ(english_name_of("de"), "German");
  EXPECT_EQ(english_name_of("zh-Hant"), "Chinese (Traditional)");
  for (const char* code : {"qqq", "!"}) EXPECT_EQ(english_name_of(code), code);
}

}  // namespace
}  // namespace tandem
