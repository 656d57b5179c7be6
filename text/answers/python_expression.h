// Regular expressions as Python's `re` means them, for rules that were written for it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct re_pattern_buffer;  // Oniguruma's

namespace tandem {

// Immutable; usable from any thread. Classes are those of str: \d is any decimal digit, \w any
// letter or number.
class PythonExpression {
 public:
  enum class Lines : uint8_t { kOne, kMany };     // kMany: re.MULTILINE
  enum class Dot : uint8_t { kNoNewline, kAny };  // kAny: re.DOTALL

  // `expression` is of this program, in Python's words; no match of it may be empty.
  explicit PythonExpression(std::string_view expression, Lines lines = Lines::kOne,
                            Dot dot = Dot::kNoNewline);

  // re.sub(): `text` is valid UTF-8, `pattern` Python's ("\1" is a group, "\\" a backslash). Throws
  // InputError if matching takes too long.
  std::string sub(std::string_view text, std::string_view pattern) const;

 private:
  struct FreeRegex {
    void operator()(re_pattern_buffer* regex) const;
  };
  std::unique_ptr<re_pattern_buffer, FreeRegex> regex_;
};

}  // namespace tandem
