// UTF-8, by the byte: decoding, validation, and replacement of invalid bytes.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem {

struct CodePoint {
  char32_t value;
  int length;  // bytes, ≥ 1
};

// The character at `position` < text.size() of valid UTF-8.
CodePoint code_point_at(std::string_view text, size_t position);
// Where the character starts that ends before `position` > 0 of valid UTF-8.
size_t previous_position(std::string_view text, size_t position);
void append_utf8(char32_t c, std::string& out);

// Offset of the first byte that does not belong to a valid sequence; npos if all do.
size_t find_invalid_utf8(std::string_view text);
// Throws InputError (param `field`) naming the byte offset of the first invalid sequence.
void check_utf8(std::string_view text, const std::string& field);

// Appends `bytes` with each maximal part of an invalid sequence replaced by one U+FFFD (the
// practice that Unicode recommends, and Rust's String::from_utf8_lossy).
void append_utf8_lossy(std::string_view bytes, std::string& out);
// The same, but drops invalid bytes.
void append_valid_utf8(std::string_view bytes, std::string& out);

// How many bytes at the end (0–3) start a character that later bytes can still complete.
size_t unfinished_utf8(std::string_view bytes);

}  // namespace tandem
