#include "base/strings/base64.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> make_values() {
  std::array<int8_t, 256> out{};
  out.fill(-1);
  for (size_t i = 0; i < kAlphabet.size(); ++i)
    out[static_cast<unsigned char>(kAlphabet[i])] = static_cast<int8_t>(i);
  return out;
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  static constexpr std::array<int8_t, 256> kValues = make_values();
  const bool padded = text.ends_with('=');
  if (padded && text.size() % 4 != 0) return std::nullopt;
  if (padded) text.remove_suffix(text.ends_with("==") ? 2 : 1);
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int8_t value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out += static_cast<char>(bits >> count & 0xff);
  }
  if (count == 6 || (bits & ((1u << count) - 1)) != 0) return std::nullopt;
  return out;
}

std::string encode_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - at);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < count ? static_cast<uint8_t>(bytes[at + i]) : 0u);
    for (size_t i = 0; i < 4; ++i) out += i <= count ? kAlphabet[bits >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

}  // namespace tandem
