#include "base/strings/base64.h"

#include <gtest/gtest.h>

namespace tandem {
namespace {

TEST(Base64, KnownTexts) {
  EXPECT_EQ(decode_base64(""), "");
  EXPECT_EQ(decode_base64("Zg=="), "f");
  EXPECT_EQ(decode_base64("Zg"), "f");
  EXPECT_EQ(decode_base64("Zm8="), "fo");
  EXPECT_EQ(decode_base64("Zm9vYmFy"), "foobar");
  EXPECT_EQ(decode_base64("//79"), "\xff\xfe\xfd");
}

TEST(Base64, OfBytes) {
  EXPECT_EQ(encode_base64(""), "");
  EXPECT_EQ(encode_base64("f"), "Zg==");
  EXPECT_EQ(encode_base64("fo"), "Zm8=");
  EXPECT_EQ(encode_base64("foo"), "Zm9v");
  EXPECT_EQ(encode_base64("\xFF\xFE"), "//4=");
}

TEST(Base64, WhatIsNone) {
  for (const char* text : {"Z", "Zg=", "Zg===", "Zh==", "Zm9=", "Z g=", "Zg==\n", "Zm-v", "=",
                           "====", "Zm9v=", "Zm=v"})
    EXPECT_EQ(decode_base64(text), std::nullopt) << text;
  EXPECT_EQ(decode_base64(std::string_view("Zm\0v", 4)), std::nullopt);
}

}  // namespace
}  // namespace tandem
