#include "text/language_detector.h"

#include <gtest/gtest.h>

#include <string>

namespace tandem {
namespace {

std::string first(const std::string& text) {
  const auto found = detect_languages(text);
  return found.empty() ? "" : found[0].code;
}

TEST(LanguageDetector, Sentences) {
  EXPECT_EQ(first("The weather is fine today, and we are going to the park."), "en");
  EXPECT_EQ(first("Das Wetter ist heute schön, und wir gehen in den Park."), "de");
  EXPECT_EQ(first("Il fait beau aujourd'hui et nous allons au parc."), "fr");
  EXPECT_EQ(first("El tiempo es bueno hoy y vamos al parque con los niños."), "es");
  EXPECT_EQ(first("Сегодня хорошая погода, и мы идём в парк."), "ru");
  EXPECT_EQ(first("今日は天気がいいので、公園に行きます。"), "ja");
  EXPECT_EQ(first("今天天气很好，我们去公园吧。"), "zh");
  EXPECT_EQ(first("היום מזג האוויר יפה ואנחנו הולכים לפארק"), "he");
  EXPECT_EQ(first("Vremea este frumoasă astăzi și mergem în parc."), "ro");
}

TEST(LanguageDetector, Confidence) {
  const auto found = detect_languages("The weather is fine today, and we are going to the park.");
  ASSERT_FALSE(found.empty());
  EXPECT_GT(found[0].confidence, 0.5);
  EXPECT_LE(found[0].confidence, 1);
}

TEST(LanguageDetector, WhatIsNoLanguage) {
  EXPECT_EQ(first(""), "");
  EXPECT_EQ(first("12345 67.89 !!!"), "");
  EXPECT_EQ(first("\xff\xfe not UTF-8 at all"), "");
}

TEST(LanguageDetector, ALongTextIsCutBetweenCharacters) {
  std::string text;
  while (text.size() < (200 << 10)) text += "Сегодня хорошая погода. ";
  EXPECT_EQ(first(text), "ru");
}

}  // namespace
}  // namespace tandem
