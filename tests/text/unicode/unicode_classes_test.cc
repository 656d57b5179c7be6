// Character classes against ICU.
#include "text/unicode/unicode_classes.h"

#include <gtest/gtest.h>
#include <unicode/uchar.h>
#include <unicode/uversion.h>

#include <cstddef>
#include <cstdint>

namespace tandem {
namespace {

// ICU may know a newer or older Unicode; what both know must agree.
TEST(UnicodeClasses, SameAsIcu) {
  UVersionInfo unicode_16 = {16, 0, 0, 0}, age;
  size_t letters = 0, numbers = 0, compared = 0;
  for (char32_t c = 0; c <= 0x10FFFF; ++c) {
    const auto code = static_cast<UChar32>(c);
    u_charAge(code, age);
    letters += is_letter(c);
    numbers += is_number(c);
    if (age[0] == 0 || age[0] > unicode_16[0]) continue;  // not a character of both
    ++compared;
    const uint32_t mask = U_GET_GC_MASK(code);
    ASSERT_EQ(is_letter(c), (mask & U_GC_L_MASK) != 0) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(is_number(c), (mask & U_GC_N_MASK) != 0) << std::hex << static_cast<uint32_t>(c);
    ASSERT_EQ(is_space(c), u_isUWhiteSpace(code) != 0) << std::hex << static_cast<uint32_t>(c);
    const bool word = u_isUAlphabetic(code) || u_hasBinaryProperty(code, UCHAR_JOIN_CONTROL) ||
                      (mask & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) != 0;
    ASSERT_EQ(is_word(c), word) << std::hex << static_cast<uint32_t>(c);
  }
  EXPECT_EQ(letters, 141028u);  // of Unicode 16.0
  EXPECT_EQ(numbers, 1911u);
  EXPECT_GT(compared, 280000u);
}

}  // namespace
}  // namespace tandem
