// One function knows what a valid sequence is: scan() below. Surrogates, overlong forms and values
// past U+10FFFF are invalid.
#include "base/strings/utf8.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"

namespace tandem {
namespace {

struct Scan {
  int length;  // bytes of the sequence, or of its valid beginning (at least 1)
  bool valid;
  bool cut;  // not valid only because the text ends
};

// Length and range of the second byte that a lead byte allows; length 0: not a lead byte.
struct Lead {
  int length;
  uint8_t low, high;
};

Lead lead_of(uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte < 0xF0)
    return {3, static_cast<uint8_t>(byte == 0xE0 ? 0xA0 : 0x80),
            static_cast<uint8_t>(byte == 0xED ? 0x9F : 0xBF)};
  if (byte < 0xF5)
    return {4, static_cast<uint8_t>(byte == 0xF0 ? 0x90 : 0x80),
            static_cast<uint8_t>(byte == 0xF4 ? 0x8F : 0xBF)};
  return {0, 0, 0};
}

Scan scan(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const Lead lead = lead_of(byte(position));
  if (lead.length == 0) return {1, false, false};
  for (int i = 1; i < lead.length; ++i) {
    if (position + i >= text.size()) return {i, false, true};
    const uint8_t low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xBF;
    if (byte(position + i) < low || byte(position + i) > high) return {i, false, false};
  }
  return {lead.length, true, false};
}

// First byte ≥ 0x80 at or after `position`.
size_t skip_ascii(std::string_view text, size_t position) {
  while (position < text.size() && static_cast<uint8_t>(text[position]) < 0x80) ++position;
  return position;
}

void append_with(std::string_view bytes, std::string_view in_place_of_invalid, std::string& out) {
  size_t valid_from = 0;
  for (size_t i = skip_ascii(bytes, 0); i < bytes.size(); i = skip_ascii(bytes, i)) {
    const Scan found = scan(bytes, i);
    if (!found.valid) {
      out.append(bytes, valid_from, i - valid_from).append(in_place_of_invalid);
      valid_from = i + static_cast<size_t>(found.length);
    }
    i += static_cast<size_t>(found.length);
  }
  out.append(bytes, valid_from);
}

}  // namespace

CodePoint code_point_at(std::string_view text, size_t position) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[position + i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {static_cast<char32_t>((lead & 0x1F) << 6 | (byte(1) & 0x3F)), 2};
  if (lead < 0xF0)
    return {static_cast<char32_t>((lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F)),
            3};
  return {static_cast<char32_t>((lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 |
                                (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F)),
          4};
}

size_t previous_position(std::string_view text, size_t position) {
  do {
    --position;
  } while (position > 0 && (static_cast<uint8_t>(text[position]) & 0xC0) == 0x80);
  return position;
}

void append_utf8(char32_t c, std::string& out) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6), put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12), put(0x80 | (c >> 6 & 0x3F)), put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18), put(0x80 | (c >> 12 & 0x3F)), put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t i = skip_ascii(text, 0); i < text.size(); i = skip_ascii(text, i)) {
    const Scan found = scan(text, i);
    if (!found.valid) return i;
    i += static_cast<size_t>(found.length);
  }
  return std::string_view::npos;
}

void append_utf8_lossy(std::string_view bytes, std::string& out) {
  append_with(bytes, "\xEF\xBF\xBD", out);
}

void append_valid_utf8(std::string_view bytes, std::string& out) { append_with(bytes, "", out); }

size_t unfinished_utf8(std::string_view bytes) {
  for (size_t n = 1; n <= std::min<size_t>(3, bytes.size()); ++n) {
    const size_t at = bytes.size() - n;
    if ((static_cast<uint8_t>(bytes[at]) & 0xC0) == 0x80) continue;  // not the start of a character
    const Scan found = scan(bytes, at);
    return found.cut && static_cast<size_t>(found.length) == n ? n : 0;
  }
  return 0;
}

void check_utf8(std::string_view text, const std::string& field) {
  const size_t at = find_invalid_utf8(text);
  if (at != std::string_view::npos)
    throw invalid_request(field, "not valid UTF-8: the byte at offset " + std::to_string(at) +
                                     " does not belong to a character");
}

}  // namespace tandem
