// Characters of HTTP's fields (RFC 9110, 5.6).
#pragma once

#include <string_view>

namespace tandem::server {

inline bool is_letter_or_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
inline bool is_token_char(char c) {
  return is_letter_or_digit(c) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}
inline bool is_blank(char c) { return c == ' ' || c == '\t'; }

}  // namespace tandem::server
