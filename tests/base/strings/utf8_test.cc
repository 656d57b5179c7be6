// UTF-8 against ICU and the examples of the Unicode standard.
#include "base/strings/utf8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unicode/unistr.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "base/error.h"

namespace tandem {
namespace {

std::string lossy(const std::string& bytes) {
  std::string out;
  append_utf8_lossy(bytes, out);
  return out;
}

std::string without(std::string text, const std::string& part) {
  for (size_t at; (at = text.find(part)) != std::string::npos;) text.erase(at, part.size());
  return text;
}

std::string lossy_of_icu(const std::string& bytes) {
  std::string out;
  icu::UnicodeString::fromUTF8(bytes).toUTF8String(out);
  return out;
}

// Bytes that are often almost valid.
std::string random_bytes(std::mt19937_64& rng) {
  static const std::string kPieces[] = {"a",        "\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80",
                                        "\xE2\x82", "\xF0\x9F", "\xED\xA0",     "\xF4\x90",
                                        "\xE0\x80", "\x80",     "\xBF",         "\xC0",
                                        "\xFF",     "\xF0",     "\xEF\xBF\xBD"};
  std::string out;
  for (size_t n = rng() % 12; n > 0; --n) {
    if (rng() % 4 == 0)
      out += static_cast<char>(rng());
    else
      out += kPieces[rng() % std::size(kPieces)];
  }
  return out;
}

TEST(Utf8, EachMaximalInvalidPartIsOneReplacement) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(lossy("plain"), "plain");
  EXPECT_EQ(lossy("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(lossy("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"), r + r + r + r + r + r + r + r + "A");
  EXPECT_EQ(lossy("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"), r + r + r + r + r + "A" + r + r + "B");
  EXPECT_EQ(lossy("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), r + r + r + r + "A");
}

TEST(Utf8, SameAsIcuOnRandomBytes) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 rng(seed);
  for (int i = 0; i < 20000; ++i) {
    const std::string bytes = random_bytes(rng);
    const std::string expected = lossy_of_icu(bytes);
    ASSERT_EQ(lossy(bytes), expected) << testing::PrintToString(bytes);
    std::string valid;
    append_valid_utf8(bytes, valid);
    ASSERT_EQ(find_invalid_utf8(valid), std::string::npos);
    ASSERT_EQ(without(valid, "\uFFFD"), without(expected, "\uFFFD"))
        << testing::PrintToString(bytes);
    // A U+FFFD that was there stays.
    if (bytes == expected) {
      ASSERT_EQ(valid, bytes);
    }
    const size_t invalid = find_invalid_utf8(bytes);
    ASSERT_EQ(invalid == std::string::npos, bytes == expected) << testing::PrintToString(bytes);
    if (invalid == std::string::npos) continue;
    ASSERT_EQ(lossy_of_icu(bytes.substr(0, invalid)), bytes.substr(0, invalid));
    ASSERT_TRUE(lossy_of_icu(bytes.substr(invalid)).starts_with("\uFFFD"));
    ASSERT_FALSE(bytes.substr(invalid).starts_with("\uFFFD"));
  }
}

TEST(Utf8, UnfinishedIsWhatLaterBytesCanComplete) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 rng(seed);
  for (int i = 0; i < 5000; ++i) {
    const std::string bytes = random_bytes(rng);
    size_t expected = 0;
    for (size_t n = 1; n <= std::min<size_t>(3, bytes.size()); ++n) {
      // Some continuation makes the last n bytes one character.
      const std::string tail = bytes.substr(bytes.size() - n);
      for (const char* rest : {"\x80", "\x90", "\xA0", "\x80\x80", "\x90\x80", "\xA0\x80",
                               "\x80\x80\x80", "\x90\x80\x80", "\xA0\x80\x80"}) {
        const std::string whole = tail + rest;
        const bool valid = find_invalid_utf8(whole) == std::string::npos;
        if (valid && static_cast<size_t>(code_point_at(whole, 0).length) == whole.size())
          expected = n;
      }
    }
    ASSERT_EQ(unfinished_utf8(bytes), expected) << testing::PrintToString(bytes);
  }
}

TEST(Utf8, CodePointsRoundTrip) {
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string text = "x";
    append_utf8(c, text);
    const size_t length = text.size() - 1;
    ASSERT_EQ(find_invalid_utf8(text), std::string::npos);
    ASSERT_EQ(code_point_at(text, 1).value, c);
    ASSERT_EQ(static_cast<size_t>(code_point_at(text, 1).length), length);
    ASSERT_EQ(previous_position(text, text.size()), 1u);
  }
}

TEST(Utf8, CheckNamesTheFieldAndTheOffset) {
  check_utf8("na\xC3\xAFve", "prompt");
  try {
    check_utf8("na\xC3\xAFve \xE2\x82 euro", "prompt");
    FAIL() << "invalid UTF-8 was accepted";
  } catch (const InputError& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInvalidRequest);
    EXPECT_EQ(e.param(), "prompt");
    EXPECT_THAT(e.what(), testing::HasSubstr("offset 7"));
  }
}

}  // namespace
}  // namespace tandem
