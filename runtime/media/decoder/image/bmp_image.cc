// BMP: headers of Windows and OS/2, 1 to 32 bits, RLE; masks and palettes as Pillow reads them.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/image/image_formats.h"

namespace tandem::decoder {
namespace {

constexpr uint32_t kRaw = 0, kRle8 = 1, kRle4 = 2, kBitfields = 3;

// Where the bytes of a color are, of a pixel of 24 or 32 bits; red, green, blue.
using Order = std::array<int, 3>;

class BmpReader {
 public:
  explicit BmpReader(std::string_view bytes) : bytes_(bytes) {}

  Image read() {
    read_header();
    check_image_size(width_, height_);
    read_masks();
    if (bits_ <= 8)
      read_palette();
    else if (pixels_ == 0)
      pixels_ = palette_at_;
    Image out = make_image(width_, height_);
    if (compression_ == kRle8 || compression_ == kRle4)
      read_rle(out);
    else
      read_rows(out);
    return out;
  }

 private:
  uint32_t number(uint64_t at, int size) const {
    if (at + static_cast<uint64_t>(size) > bytes_.size())
      throw unreadable("is a BMP image that is cut");
    uint32_t out = 0;
    for (int i = size - 1; i >= 0; --i) out = out << 8 | byte(at + static_cast<uint64_t>(i));
    return out;
  }
  uint8_t byte(uint64_t at) const { return static_cast<uint8_t>(bytes_[at]); }
  uint8_t* row(Image& out, int64_t y) const {
    return out.row(static_cast<int>(top_down_ ? y : height_ - 1 - y));
  }
  // (Beside the palette an index is a grey.)
  void put(uint8_t* to, uint32_t index) const {
    if (index < palette_.size())
      std::copy(palette_[index].begin(), palette_[index].end(), to);
    else
      std::fill(to, to + 3, static_cast<uint8_t>(index));
  }
  void read_header();
  void read_masks();
  void read_palette();
  void read_rows(Image& out) const;
  void read_pixel(uint64_t line, int64_t x, uint8_t* to) const;
  void read_rle(Image& out) const;
  std::vector<uint8_t> unpack_rle() const;

  std::string_view bytes_;
  uint64_t header_ = 0, pixels_ = 0;  // its size; where pixels begin
  int64_t width_ = 0, height_ = 0;
  bool top_down_ = false;
  uint32_t bits_ = 0, compression_ = kRaw, colors_ = 0;
  Order order_ = {2, 1, 0};
  bool is_565_ = false;
  std::vector<std::array<uint8_t, 3>> palette_;
  uint64_t palette_at_ = 0;
};

void BmpReader::read_header() {
  pixels_ = number(10, 4);
  header_ = number(14, 4);
  palette_at_ = 14 + header_;
  if (header_ == 12) {
    width_ = number(18, 2), height_ = number(20, 2);
    bits_ = number(24, 2);
  } else if (header_ == 40 || header_ == 52 || header_ == 56 || header_ == 64 || header_ == 108 ||
             header_ == 124) {
    width_ = number(18, 4), height_ = number(22, 4);
    top_down_ = number(25, 1) == 0xff;
    if (top_down_) height_ = (int64_t{1} << 32) - height_;
    bits_ = number(28, 2);
    compression_ = number(30, 4);
    colors_ = number(46, 4);
  } else {
    throw unreadable("is a BMP image of an unknown kind");
  }
  if (bits_ != 1 && bits_ != 4 && bits_ != 8 && bits_ != 16 && bits_ != 24 && bits_ != 32)
    throw unreadable("is a BMP image of " + std::to_string(bits_) + " bits, which is not read");
  if (compression_ > kBitfields)
    throw unreadable("is a BMP image whose compression is not read (" +
                     std::to_string(compression_) + ")");
  if (colors_ == 0) colors_ = uint32_t{1} << std::min(bits_, 31u);
  number(14 + header_ - 1, 1);
}

// The layouts that Pillow knows.
void BmpReader::read_masks() {
  if (compression_ != kBitfields) return;
  const auto unknown = [] {
    return unreadable("is a BMP image whose colors have unknown places in a pixel");
  };
  const uint32_t red = number(54, 4), green = number(58, 4), blue = number(62, 4);
  uint32_t alpha = 0;
  if (header_ >= 56)
    alpha = number(66, 4);
  else if (header_ == 40)
    palette_at_ += 12;
  if (bits_ == 16) {
    is_565_ = red == 0xf800 && green == 0x7e0 && blue == 0x1f;
    if (!is_565_ && !(red == 0x7c00 && green == 0x3e0 && blue == 0x1f)) throw unknown();
    return;
  }
  struct Known {
    uint32_t red, green, blue, alpha;
    Order order;
  };
  static constexpr std::array kKnown = {
      Known{0xff0000, 0xff00, 0xff, 0, {2, 1, 0}},
      Known{0xff000000, 0xff0000, 0xff00, 0, {3, 2, 1}},
      Known{0xff000000, 0xff00, 0xff, 0, {3, 1, 0}},
      Known{0xff000000, 0xff0000, 0xff00, 0xff, {3, 2, 1}},
      Known{0xff, 0xff00, 0xff0000, 0xff000000, {0, 1, 2}},
      Known{0xff0000, 0xff00, 0xff, 0xff000000, {2, 1, 0}},
      Known{0xff000000, 0xff00, 0xff, 0xff0000, {3, 1, 0}},
      Known{0, 0, 0, 0, {2, 1, 0}},
  };
  for (const Known& k : kKnown)
    if (red == k.red && green == k.green && blue == k.blue &&
        ((bits_ == 32 && alpha == k.alpha) || (bits_ == 24 && &k == kKnown.data()))) {
      order_ = k.order;
      return;
    }
  throw unknown();
}

void BmpReader::read_palette() {
  const uint64_t size = header_ == 12 ? 3 : 4;
  if (colors_ > 65536)
    throw unreadable("is a BMP image with " + std::to_string(colors_) + " colors");
  // (What says that pixels begin at once has a palette between all the same.)
  if (pixels_ == 14 + header_) pixels_ += size * colors_;
  for (uint32_t i = 0; i < colors_ && palette_at_ + size * (i + 1) <= bytes_.size(); ++i) {
    const uint64_t at = palette_at_ + size * i;
    palette_.push_back({byte(at + 2), byte(at + 1), byte(at)});
  }
  if (pixels_ == 0) pixels_ = palette_at_ + size * colors_;
}

void BmpReader::read_pixel(uint64_t line, int64_t x, uint8_t* to) const {
  const auto at = static_cast<uint64_t>(x);
  if (bits_ == 1) return put(to, byte(line + at / 8) >> (7 - at % 8) & 1);
  if (bits_ == 4) return put(to, at % 2 == 0 ? byte(line + at / 2) >> 4 : byte(line + at / 2) & 15);
  if (bits_ == 8) return put(to, byte(line + at));
  if (bits_ == 16) {
    const uint32_t pixel = number(line + 2 * at, 2), green = is_565_ ? 63 : 31;
    to[0] = static_cast<uint8_t>((pixel >> (is_565_ ? 11 : 10) & 31) * 255 / 31);
    to[1] = static_cast<uint8_t>((pixel >> 5 & green) * 255 / green);
    to[2] = static_cast<uint8_t>((pixel & 31) * 255 / 31);
    return;
  }
  const uint64_t pixel = line + bits_ / 8 * at;
  for (size_t c = 0; c < 3; ++c) to[c] = byte(pixel + static_cast<uint64_t>(order_[c]));
}

void BmpReader::read_rows(Image& out) const {
  const uint64_t stride = (static_cast<uint64_t>(width_) * bits_ + 31) / 32 * 4;
  const uint64_t used = (static_cast<uint64_t>(width_) * bits_ + 7) / 8;
  for (int64_t y = 0; y < height_; ++y) {
    const uint64_t line = pixels_ + stride * static_cast<uint64_t>(y);
    if (line + used > bytes_.size()) throw unreadable("is a BMP image that is cut");
    uint8_t* const to = row(out, y);
    for (int64_t x = 0; x < width_; ++x) read_pixel(line, x, to + 3 * x);
  }
}

// Indices, row after row; fewer than there are pixels where the file says that they end.
std::vector<uint8_t> BmpReader::unpack_rle() const {
  const bool halves = compression_ == kRle4;
  const auto width = static_cast<size_t>(width_), all = width * static_cast<size_t>(height_);
  std::vector<uint8_t> out;
  out.reserve(all);
  size_t x = 0;
  for (uint64_t at = pixels_; out.size() < all && at + 2 <= bytes_.size();) {
    const size_t count = byte(at);
    const uint8_t value = byte(at + 1);
    at += 2;
    if (count > 0) {
      const size_t fits = x + count > width ? (width > x ? width - x : 0) : count;
      for (size_t i = 0; i < fits; ++i)
        out.push_back(!halves ? value : i % 2 == 0 ? value >> 4 : value & 15);
      x += fits;
    } else if (value == 0) {
      while (out.size() % width != 0) out.push_back(0);
      x = 0;
    } else if (value == 1) {
      break;
    } else if (value == 2) {
      if (at + 2 > bytes_.size()) break;
      out.resize(out.size() + std::min(all - out.size(), byte(at) + byte(at + 1) * width), 0);
      at += 2;
      x = out.size() % width;
    } else {
      const size_t wanted = std::min<size_t>(all - out.size(), value);
      const size_t size = halves ? (wanted + 1) / 2 : wanted;
      if (at + size > bytes_.size()) break;
      for (size_t i = 0; i < wanted; ++i) {
        const uint8_t b = byte(at + (halves ? i / 2 : i));
        out.push_back(!halves ? b : i % 2 == 0 ? b >> 4 : b & 15);
      }
      at += size;
      x += value;
      if (at % 2 != 0) ++at;  // (Pieces are of whole words.)
    }
  }
  return out;
}

void BmpReader::read_rle(Image& out) const {
  const std::vector<uint8_t> indices = unpack_rle();
  const auto width = static_cast<size_t>(width_);
  if (indices.size() < width * static_cast<size_t>(height_))
    throw unreadable("is a BMP image that is cut");
  for (size_t y = 0; y < static_cast<size_t>(height_); ++y)
    for (size_t x = 0; x < width; ++x)
      put(row(out, static_cast<int64_t>(y)) + 3 * x, indices[y * width + x]);
}

}  // namespace

Image decode_bmp(std::string_view bytes) { return BmpReader(bytes).read(); }

}  // namespace tandem::decoder
