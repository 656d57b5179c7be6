#include "base/strings/readable_text.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(ReadableText, KeepsWhatPeopleRead) {
  for (const char* text : {"", "a plain message", "…/modèle/config.json: \"日本\" — ok"})
    EXPECT_EQ(readable(text), text);
}

TEST(ReadableText, EscapesControlCharactersAndWhatIsNoUtf8) {
  EXPECT_EQ(readable("a\x1b[2Jb\r\n\x7f"), "a\\x1b[2Jb\\x0d\\x0a\\x7f");
  EXPECT_EQ(readable(std::string("nul\0!", 5)), "nul\\x00!");
  EXPECT_EQ(readable("\xff\xfe ok \xc3"), "\\xff\\xfe ok \\xc3");
  EXPECT_EQ(readable("\xc2\x9b"
                     "31m"),
            "\\xc2\\x9b"
            "31m");                                  // C1: a terminal's CSI
  EXPECT_EQ(readable("\u202e"), "\\xe2\\x80\\xae");  // right to left
}

TEST(ReadableText, CutsAndTellsTheLength) {
  const std::string long_text(5'000'000, 'x');
  EXPECT_EQ(readable(long_text, 10), "xxxxxxxxxx… (5000000 characters)");
  EXPECT_LT(readable(long_text).size(), 2100u);
  EXPECT_EQ(readable("äöü", 3), "äö… (6 characters)") << "never within a character";
  EXPECT_LT(readable(std::string(1'000'000, '\xff')).size(), 2100u);
}

}  // namespace
}  // namespace tandem
