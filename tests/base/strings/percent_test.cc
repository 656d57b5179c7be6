#include "base/strings/percent.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Percent, EscapesBecomeBytes) {
  EXPECT_EQ(percent_decoded(""), "");
  EXPECT_EQ(percent_decoded("a%20b+c"), "a b+c");
  EXPECT_EQ(percent_decoded("%c3%A9%2B"), "é+");
  EXPECT_EQ(percent_decoded("%00"), std::string(1, '\0'));
}

TEST(Percent, WhatMakesNoSenseStays) {
  for (const char* text : {"%", "%4", "a%", "%4g", "%g4", "%%", "% 1"})
    EXPECT_EQ(percent_decoded(text), text);
  EXPECT_EQ(percent_decoded("%%41%4"), "%A%4");
}

}  // namespace
}  // namespace tandem
