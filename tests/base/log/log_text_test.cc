#include "base/log/log_text.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(LogText, ControlsAreEscaped) {
  EXPECT_EQ(escape_controls("plain \"text\" \\ äö 漢字 \xf0\x9f\x98\x80"),
            "plain \"text\" \\ äö 漢字 \xf0\x9f\x98\x80");
  EXPECT_EQ(escape_controls("a\nb\r\tc"), "a\\nb\\r\\tc");
  EXPECT_EQ(escape_controls(std::string_view("\0\x1b[31m\x7f", 7)), "\\x00\\x1b[31m\\x7f");
  EXPECT_EQ(escape_controls("\xc2\x9b"), "\\u009b") << "the terminal's CSI in one character";
  EXPECT_EQ(escape_controls("a\xe2\x80\xa8z\xe2\x80\xae"), "a\\u2028z\\u202e");
  EXPECT_EQ(escape_controls("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(escape_controls("\xf0\x9f"), "\\xf0\\x9f") << "half a character";
  EXPECT_EQ(escape_controls(""), "");
}

TEST(LogText, FieldsEndWhereTheyEnd) {
  EXPECT_EQ(escape_field("/a\" 200 \\"), "/a\\\" 200 \\\\");
  EXPECT_EQ(escape_field("a\n"), "a\\n");
}

}  // namespace
}  // namespace tandem
