// PNG (W3C, second edition) with zlib: one IDAT, each row as the difference to the one above it.
#include "runtime/media/image/png_file.h"

#include <zlib.h>

#include <cstdint>
#include <string_view>

#include "base/check.h"

namespace tandem {
namespace {

constexpr int kQuick = 1;  // of zlib's levels

void append_number(uint32_t value, std::string& out) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift & 0xff);
}

void append_chunk(std::string_view type, std::string_view data, std::string& out) {
  append_number(static_cast<uint32_t>(data.size()), out);
  const std::string body = std::string(type).append(data);
  append_number(static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(body.data()),
                                            static_cast<uInt>(body.size()))),
                out);
  out.insert(out.size() - 4, body);
}

}  // namespace

std::string png_file(const Image& image) {
  TANDEM_CHECK(image.width > 0 && image.height > 0);
  const size_t width = size_t{3} * static_cast<size_t>(image.width);
  std::string rows;
  rows.reserve((width + 1) * static_cast<size_t>(image.height));
  for (int y = 0; y < image.height; ++y) {
    const uint8_t *row = image.row(y), *above = y > 0 ? image.row(y - 1) : nullptr;
    rows += static_cast<char>(above != nullptr ? 2 : 0);  // the filter: "up", or none
    for (size_t i = 0; i < width; ++i)
      rows += static_cast<char>(row[i] - (above != nullptr ? above[i] : 0));
  }
  uLongf size = compressBound(static_cast<uLong>(rows.size()));
  std::string packed(size, '\0');
  TANDEM_CHECK(compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
                         reinterpret_cast<const Bytef*>(rows.data()),
                         static_cast<uLong>(rows.size()), kQuick) == Z_OK);
  packed.resize(size);
  std::string header;
  append_number(static_cast<uint32_t>(image.width), header);
  append_number(static_cast<uint32_t>(image.height), header);
  header += {8, 2, 0, 0, 0};  // bits, RGB, zlib, filters, no interlacing
  std::string out = "\x89PNG\r\n\x1a\n";
  append_chunk("IHDR", header, out);
  append_chunk("IDAT", packed, out);
  append_chunk("IEND", "", out);
  return out;
}

}  // namespace tandem
