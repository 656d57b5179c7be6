// TIFF through libtiff: strips and tiles of every compression that it knows, samples as Pillow
// reads them (OPEN_INFO in its plugin): of 1 to 16 bits, grey, palettes, RGB, CMYK, YCbCr.
#include <tiffio.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/image/color.h"
#include "runtime/media/decoder/image/exif_orientation.h"
#include "runtime/media/decoder/image/image_formats.h"

namespace tandem::decoder {
namespace {

struct Bytes {
  std::string_view data;
  size_t at = 0;
};

tmsize_t read_bytes(thandle_t handle, void* to, tmsize_t count) {
  auto& bytes = *static_cast<Bytes*>(handle);
  if (bytes.at >= bytes.data.size() || count <= 0) return 0;
  const size_t got = bytes.data.copy(static_cast<char*>(to), static_cast<size_t>(count), bytes.at);
  bytes.at += got;
  return static_cast<tmsize_t>(got);
}
tmsize_t write_nothing(thandle_t, void*, tmsize_t) { return 0; }
toff_t seek(thandle_t handle, toff_t offset, int whence) {
  auto& bytes = *static_cast<Bytes*>(handle);
  const size_t from = whence == SEEK_CUR ? bytes.at : whence == SEEK_END ? bytes.data.size() : 0;
  bytes.at = from + static_cast<size_t>(offset);
  return bytes.at;
}
int close_nothing(thandle_t) { return 0; }
toff_t size_of(thandle_t handle) { return static_cast<Bytes*>(handle)->data.size(); }

struct CloseTiff {
  void operator()(TIFF* tiff) const { TIFFClose(tiff); }
};

class TiffReader {
 public:
  explicit TiffReader(std::string_view bytes) : bytes_{bytes} {
    TIFFSetErrorHandler(nullptr);
    TIFFSetWarningHandler(nullptr);
    // (m: not mapped; O: only the first directory is read at once.)
    tiff_.reset(TIFFClientOpen("", "rm", &bytes_, read_bytes, write_nothing, seek, close_nothing,
                               size_of, nullptr, nullptr));
    if (!tiff_) throw broken();
  }

  Image read() {
    read_tags();
    check_image_size(width_, height_);
    Image out = make_image(width_, height_);
    if (photometric_ == PHOTOMETRIC_YCBCR && bands_ == 3 && !is_rgb_by_jpeg())
      read_whole(out);
    else
      read_pieces(out);
    return upright(std::move(out), orientation_);
  }

 private:
  static DecodeError broken() { return unreadable("is a broken TIFF image"); }
  static DecodeError unknown(const std::string& what) {
    return unreadable("is a TIFF image of a kind that is not read: " + what);
  }
  uint16_t tag(uint32_t name) const {
    uint16_t out = 0;
    TIFFGetFieldDefaulted(tiff_.get(), name, &out);
    return out;
  }
  // JPEG's decoder makes RGB of what it has.
  bool is_rgb_by_jpeg() const {
    return compression_ == COMPRESSION_JPEG && tag(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_CONTIG;
  }
  void read_tags();
  void check_kind() const;
  void read_whole(Image& out);
  void read_pieces(Image& out);
  void read_tiles(Image& out, int plane);
  void read_strips(Image& out, int plane);
  void put(const uint8_t* from, int count, int plane, uint8_t* to) const;
  void put_pixel(const std::array<uint32_t, 6>& samples, uint8_t* to) const;
  uint32_t sample(const uint8_t* from, size_t i) const;

  Bytes bytes_;
  std::unique_ptr<TIFF, CloseTiff> tiff_;
  uint32_t width_ = 0, height_ = 0;
  int bits_ = 1, bands_ = 1, format_ = SAMPLEFORMAT_UINT;
  int photometric_ = 0, compression_ = 1, orientation_ = 1;
  bool planes_ = false;            // a band after the other
  bool alpha_multiplied_ = false;  // of RGB, by the fourth band
  std::array<uint16_t*, 3> palette_ = {};
};

void TiffReader::read_tags() {
  TIFF* const tiff = tiff_.get();
  if (TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width_) != 1 ||
      TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height_) != 1)
    throw broken();
  bits_ = tag(TIFFTAG_BITSPERSAMPLE);
  bands_ = tag(TIFFTAG_SAMPLESPERPIXEL);
  format_ = tag(TIFFTAG_SAMPLEFORMAT);
  compression_ = tag(TIFFTAG_COMPRESSION);
  orientation_ = tag(TIFFTAG_ORIENTATION);
  planes_ = tag(TIFFTAG_PLANARCONFIG) == PLANARCONFIG_SEPARATE && bands_ > 1;
  uint16_t photometric = 0;
  TIFFGetField(tiff, TIFFTAG_PHOTOMETRIC, &photometric);
  photometric_ = compression_ == COMPRESSION_OJPEG ? PHOTOMETRIC_YCBCR : photometric;
  uint16_t extras = 0, *kinds = nullptr;
  if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &extras, &kinds) == 1 && extras > 0)
    alpha_multiplied_ = kinds[0] == EXTRASAMPLE_ASSOCALPHA;
  if (photometric_ == PHOTOMETRIC_PALETTE &&
      TIFFGetField(tiff, TIFFTAG_COLORMAP, &palette_[0], &palette_[1], &palette_[2]) != 1)
    throw broken();
  check_kind();
  if (photometric_ == PHOTOMETRIC_YCBCR && is_rgb_by_jpeg())
    TIFFSetField(tiff, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
}

void TiffReader::check_kind() const {
  const int p = photometric_;
  const bool grey = p == PHOTOMETRIC_MINISWHITE || p == PHOTOMETRIC_MINISBLACK;
  const int colors = grey || p == PHOTOMETRIC_PALETTE                 ? 1
                     : p == PHOTOMETRIC_RGB || p == PHOTOMETRIC_YCBCR ? 3
                     : p == PHOTOMETRIC_SEPARATED                     ? 4
                                                                      : 0;
  if (colors == 0) throw unknown("photometric interpretation " + std::to_string(p));
  if (bands_ < (p == PHOTOMETRIC_YCBCR ? 1 : colors) || bands_ > 6)
    throw unknown(std::to_string(bands_) + " samples a pixel");
  if (format_ != SAMPLEFORMAT_UINT) throw unknown("samples that are no whole numbers");
  const bool few = bits_ == 1 || bits_ == 2 || bits_ == 4;
  if (!(bits_ == 8 || (few && colors == 1) ||
        (bits_ == 16 && p != PHOTOMETRIC_PALETTE && p != PHOTOMETRIC_YCBCR)))
    throw unknown(std::to_string(bits_) + " bits a sample");
}

// Of samples that share colors with their neighbours.
void TiffReader::read_whole(Image& out) {
  std::vector<uint32_t> pixels(out.rgb.size() / 3);
  // (Turned as the file says later, with all others.)
  if (TIFFReadRGBAImageOriented(tiff_.get(), width_, height_, pixels.data(),
                                static_cast<int>(orientation_ == 0 ? 1 : orientation_), 1) != 1)
    throw broken();
  for (size_t i = 0; i < pixels.size(); ++i) {
    out.rgb[3 * i] = static_cast<uint8_t>(TIFFGetR(pixels[i]));
    out.rgb[3 * i + 1] = static_cast<uint8_t>(TIFFGetG(pixels[i]));
    out.rgb[3 * i + 2] = static_cast<uint8_t>(TIFFGetB(pixels[i]));
  }
}

void TiffReader::read_pieces(Image& out) {
  const int planes = planes_ ? std::min(bands_, photometric_ == PHOTOMETRIC_SEPARATED ? 4 : 3) : 1;
  if (planes_ && planes != 3) throw unknown("planes of samples that are not red, green and blue");
  for (int plane = 0; plane < planes; ++plane)
    if (TIFFIsTiled(tiff_.get()) != 0)
      read_tiles(out, plane);
    else
      read_strips(out, plane);
}

void TiffReader::read_strips(Image& out, int plane) {
  const auto size = static_cast<size_t>(TIFFScanlineSize(tiff_.get()));
  const size_t bands = planes_ ? 1 : static_cast<size_t>(bands_);
  if (size < (width_ * bands * static_cast<size_t>(bits_) + 7) / 8) throw broken();
  std::vector<uint8_t> line(size);
  for (uint32_t y = 0; y < height_; ++y) {
    if (TIFFReadScanline(tiff_.get(), line.data(), y, static_cast<uint16_t>(plane)) != 1)
      throw broken();
    put(line.data(), static_cast<int>(width_), plane, out.row(static_cast<int>(y)));
  }
}

void TiffReader::read_tiles(Image& out, int plane) {
  uint32_t across = 0, down = 0;
  TIFFGetField(tiff_.get(), TIFFTAG_TILEWIDTH, &across);
  TIFFGetField(tiff_.get(), TIFFTAG_TILELENGTH, &down);
  check_image_size(across, down);
  const auto size = static_cast<size_t>(TIFFTileSize(tiff_.get())),
             row = static_cast<size_t>(TIFFTileRowSize(tiff_.get()));
  const size_t bands = planes_ ? 1 : static_cast<size_t>(bands_);
  if (size < row * down || row < (across * bands * static_cast<size_t>(bits_) + 7) / 8)
    throw broken();
  std::vector<uint8_t> tile(size);
  for (uint32_t y = 0; y < height_; y += down)
    for (uint32_t x = 0; x < width_; x += across) {
      if (TIFFReadTile(tiff_.get(), tile.data(), x, y, 0, static_cast<uint16_t>(plane)) < 0)
        throw broken();
      for (uint32_t i = 0; i < std::min(down, height_ - y); ++i)
        put(tile.data() + i * row, static_cast<int>(std::min(across, width_ - x)), plane,
            out.row(static_cast<int>(y + i)) + 3 * x);
    }
}

uint32_t TiffReader::sample(const uint8_t* from, size_t i) const {
  if (bits_ == 8) return from[i];
  if (bits_ == 16) {
    uint16_t out = 0;
    std::memcpy(&out, from + 2 * i, 2);
    return out;
  }
  const size_t bit = i * static_cast<size_t>(bits_);
  return from[bit / 8] >> (8 - bits_ - static_cast<int>(bit % 8)) & ((1u << bits_) - 1);
}

void TiffReader::put(const uint8_t* from, int count, int plane, uint8_t* to) const {
  if (planes_) {
    for (int x = 0; x < count; ++x) {
      const uint32_t value = sample(from, static_cast<size_t>(x));
      to[3 * x + plane] = static_cast<uint8_t>(bits_ == 16 ? value >> 8 : value);
    }
    return;
  }
  std::array<uint32_t, 6> samples{};
  const auto bands = static_cast<size_t>(bands_);
  for (int x = 0; x < count; ++x) {
    for (size_t band = 0; band < bands; ++band)
      samples[band] = sample(from, static_cast<size_t>(x) * bands + band);
    put_pixel(samples, to + 3 * x);
  }
}

void TiffReader::put_pixel(const std::array<uint32_t, 6>& samples, uint8_t* to) const {
  const auto upper = [&](size_t band) {
    return static_cast<uint8_t>(bits_ == 16 ? samples[band] >> 8 : samples[band]);
  };
  if (photometric_ == PHOTOMETRIC_PALETTE) {
    for (size_t c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(palette_[c][samples[0]] >> 8);
  } else if (photometric_ == PHOTOMETRIC_SEPARATED) {
    const std::array<uint8_t, 4> ink = {upper(0), upper(1), upper(2), upper(3)};
    cmyk_to_rgb(ink.data(), to, 1);
  } else if (bands_ >= 3) {
    for (size_t c = 0; c < 3; ++c) {
      to[c] = upper(c);
      if (!alpha_multiplied_ || bands_ < 4) continue;
      const uint32_t alpha = upper(3);
      to[c] = static_cast<uint8_t>(alpha == 0 ? 0 : std::min(255u, to[c] * 255u / alpha));
    }
  } else {
    // Of 16 bits what is over 255 is white, and nothing is inverted, as Pillow has it.
    uint32_t grey =
        bits_ == 16 ? std::min(samples[0], 255u) : samples[0] * 255 / ((1u << bits_) - 1);
    if (photometric_ == PHOTOMETRIC_MINISWHITE && bits_ < 16) grey = 255 - grey;
    std::fill(to, to + 3, static_cast<uint8_t>(grey));
  }
}

}  // namespace

Image decode_tiff(std::string_view bytes) { return TiffReader(bytes).read(); }

}  // namespace tandem::decoder
