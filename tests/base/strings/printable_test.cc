#include "base/strings/printable.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Printable, EscapesWhatIsNotPlainAscii) {
  EXPECT_EQ(printable("a b\x1b[2J\xff"), "a b\\x1b[2J\\xff");
  EXPECT_EQ(in_quotes("x\n"), "\"x\\x0a\"");
  EXPECT_EQ(printable(""), "");
}

TEST(Printable, CutsAndTellsTheLength) {
  EXPECT_EQ(printable("abcdef", 3), "abc... (6 characters)");
  EXPECT_EQ(printable("abc", 3), "abc");
  const std::string endless(5'000'092, 'x');
  EXPECT_LT(in_quotes(endless).size(), 200u);
  EXPECT_NE(in_quotes(endless).find("xxx...\" (5000092 characters)"), std::string::npos);
}

}  // namespace
}  // namespace tandem
