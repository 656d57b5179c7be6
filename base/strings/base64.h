// Base64 (RFC 4648).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem {

// The standard alphabet; padding may be left out. Nothing if the text is not Base64, which allows
// neither white space nor bits behind the last byte.
std::optional<std::string> decode_base64(std::string_view text);

// With padding.
std::string encode_base64(std::string_view bytes);

}  // namespace tandem
