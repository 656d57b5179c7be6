#include "text/documents/glossary.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem {
namespace {

using Entries = std::vector<Glossary::Entry>;

TEST(Glossary, ReadsTsvAndCsv) {
  EXPECT_EQ(Glossary::of_tsv("\xEF\xBB\xBF"
                             "a\tb\r\n\nc d\te f",
                             "g")
                .entries(),
            (Entries{{"a", "b"}, {"c d", "e f"}}));
  EXPECT_EQ(Glossary::of_csv("a,b\r\n\"c, \"\"d\"\"\",e,en,de\n", "g").entries(),
            (Entries{{"a", "b"}, {"c, \"d\"", "e"}}));
  for (const char* bad : {"a", "a\t", "a\tb\tc", "a\tb\na\tc", "\tb", "a\t\xff"})
    EXPECT_THROW(Glossary::of_tsv(bad, "g"), InputError) << bad;
  for (const char* bad : {"a", "a,", "\"a,b", "a,b,c,d,e"})
    EXPECT_THROW(Glossary::of_csv(bad, "g"), InputError) << bad;
  try {
    Glossary::of_tsv("a\tb\nc", "--glossary");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "--glossary");
    EXPECT_NE(std::string(error.what()).find("line 2"), std::string::npos);
  }
}

TEST(Glossary, FindsWholeWordsTheLongestFirst) {
  const Glossary glossary({{"C++", "c"}, {"new", "n"}, {"new york", "ny"}, {"\u5317\u4EAC", "p"}},
                          "g");
  const std::string text = "new york, newer new C++ New in\u5317\u4EAC\u5E02";
  std::string found;
  for (const GlossaryMatch& match : glossary.find(text))
    found +=
        text.substr(match.begin, match.end - match.begin) + "=" + std::string(match.target) + ";";
  EXPECT_EQ(found, "new york=ny;new=n;C++=c;\u5317\u4EAC=p;");
  EXPECT_TRUE(glossary.find("").empty());
}

}  // namespace
}  // namespace tandem
