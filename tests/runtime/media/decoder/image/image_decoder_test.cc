#include "runtime/media/decoder/image/image_decoder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/image/exif_orientation.h"
#include "tests/support/files/files.h"
#include "tests/support/files/images.h"

namespace tandem::decoder {
namespace {

using tandem::testing::crc_of;
using tandem::testing::image_bytes;

Image decode_image(std::string_view bytes) {
  MemorySource source(bytes);
  return decoder::decode_image(source);
}

// What decode_image() says; fails the test where it reads the image.
std::string error_of(const std::string& bytes) {
  try {
    decode_image(bytes);
  } catch (const DecodeError& error) {
    return error.what();
  }
  ADD_FAILURE() << "the image was read";
  return "";
}

std::string big_endian(uint32_t n) {
  return {static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8),
          static_cast<char>(n)};
}

std::string chunk(const std::string& kind, const std::string& data) {
  const std::string all = kind + data;
  return big_endian(static_cast<uint32_t>(data.size())) + all +
         big_endian(crc_of(reinterpret_cast<const uint8_t*>(all.data()), all.size()));
}

std::string png_of_size(uint32_t width, uint32_t height) {
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR", big_endian(width) + big_endian(height) + std::string("\x08\x02\0\0\0", 5)) +
         chunk("IDAT", "x");
}

// The two sizes in a JPEG's frame header.
std::string jpeg_of_size(uint16_t width, uint16_t height) {
  std::string bytes = image_bytes("rgb.jpg");
  const size_t frame = bytes.find("\xff\xc0");
  bytes.replace(frame + 5, 4, big_endian(uint32_t{height} << 16 | width));
  return bytes;
}

std::string exif_of(bool big, int orientation) {
  const auto number = [&](uint32_t value, int bytes) {
    std::string out = big_endian(value).substr(static_cast<size_t>(4 - bytes));
    if (!big) std::reverse(out.begin(), out.end());
    return out;
  };
  const auto entry = [&](uint32_t tag, uint32_t value) {
    return number(tag, 2) + number(3, 2) + number(1, 4) + number(value, 2) + std::string(2, 0);
  };
  return (big ? std::string("MM") : std::string("II")) + number(42, 2) + number(8, 4) +
         number(2, 2) + entry(0x0100, 5) + entry(0x0112, static_cast<uint32_t>(orientation)) +
         number(0, 4);
}

// Pixels of three rising numbers: 1, 2, 3 in the first row, 4, 5, 6 in the second.
TEST(Exif, TurnsAsPillow) {
  Image image;
  image.width = 3;
  image.height = 2;
  for (uint8_t i = 1; i <= 6; ++i) image.rgb.insert(image.rgb.end(), {i, i, i});
  const std::map<int, std::vector<int>> want = {{0, {1, 2, 3, 4, 5, 6}}, {1, {1, 2, 3, 4, 5, 6}},
                                                {2, {3, 2, 1, 6, 5, 4}}, {3, {6, 5, 4, 3, 2, 1}},
                                                {4, {4, 5, 6, 1, 2, 3}}, {5, {1, 4, 2, 5, 3, 6}},
                                                {6, {4, 1, 5, 2, 6, 3}}, {7, {6, 3, 5, 2, 4, 1}},
                                                {8, {3, 6, 2, 5, 1, 4}}, {9, {1, 2, 3, 4, 5, 6}}};
  for (const auto& [orientation, pixels] : want) {
    const Image got = upright(image, orientation);
    const bool lying = orientation >= 5 && orientation <= 8;
    EXPECT_EQ(got.width, lying ? 2 : 3) << orientation;
    EXPECT_EQ(got.height, lying ? 3 : 2) << orientation;
    for (size_t i = 0; i < 18; ++i) ASSERT_EQ(got.rgb[i], pixels[i / 3]) << orientation;
  }
}

TEST(Exif, FilesOfBothKinds) {
  for (int orientation = 1; orientation <= 8; ++orientation)
    for (const bool big : {false, true}) {
      const std::string exif = exif_of(big, orientation);
      EXPECT_EQ(exif_orientation(exif), orientation);
      std::string jpeg = image_bytes("rgb.jpg"), png = image_bytes("rgb8.png");
      const Image upright_jpeg = upright(decode_image(jpeg), orientation),
                  upright_png = upright(decode_image(png), orientation);
      const std::string marked = std::string("Exif\0\0", 6) + exif;
      jpeg.insert(
          2, "\xff\xe1" + big_endian(static_cast<uint32_t>(marked.size()) + 2).substr(2) + marked);
      png.insert(33, chunk("eXIf", exif));
      EXPECT_EQ(decode_image(jpeg).rgb, upright_jpeg.rgb) << orientation;
      EXPECT_EQ(decode_image(png).rgb, upright_png.rgb) << orientation;
      EXPECT_EQ(decode_image(png).width, upright_png.width) << orientation;
    }
}

TEST(Exif, BrokenOnesSayNothing) {
  const std::string whole = exif_of(true, 6);
  for (size_t size = 0; size < 8 + 2 + 12 + 10; ++size)
    EXPECT_EQ(exif_orientation(std::string_view(whole).substr(0, size)), 1) << size;
  std::string changed = whole;
  changed.replace(4, 4, "\xff\xff\xff\xf8");  // the directory's place
  EXPECT_EQ(exif_orientation(changed), 1);
  changed = whole;
  changed.replace(8, 2, "\xff\xff");  // more entries than there are
  EXPECT_EQ(exif_orientation(changed), 6);
  for (const int value : {0, 9, 0x600}) EXPECT_EQ(exif_orientation(exif_of(false, value)), 1);
}

TEST(ImageDecoder, EveryKindAsPillow) {
  int count = 0;
  const nlohmann::json expected = tandem::testing::expected_images();
  for (const auto& [name, want] : expected.items()) {
    SCOPED_TRACE(name);
    const Image image = decode_image(image_bytes(name));
    EXPECT_EQ(image.width, want["width"]);
    EXPECT_EQ(image.height, want["height"]);
    EXPECT_EQ(crc_of(image), want["crc"]);
    ++count;
  }
  EXPECT_GE(count, 20);
}

TEST(ImageDecoder, CutFiles) {
  for (const char* name : {"rgb8.png", "palette2.png", "rgb8_interlaced.png", "rgb.jpg",
                           "progressive.jpg", "grey.jpg"}) {
    SCOPED_TRACE(name);
    const std::string whole = image_bytes(name);
    // A PNG's last 16 bytes say that it ends, and its data's check.
    const size_t needed = whole.size() - (whole[0] == '\xff' ? 2 : 16);
    for (size_t size = 0; size < needed; size += 1 + size / 40) {
      const std::string error = error_of(whole.substr(0, size));
      if (size > 40) {
        EXPECT_NE(error.find("broken"), std::string::npos) << size << ": " << error;
      }
    }
  }
}

TEST(ImageDecoder, WrongChecksums) {
  std::string bytes = image_bytes("rgb8.png");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);  // in the data
  EXPECT_NE(error_of(bytes).find("broken PNG"), std::string::npos);
  bytes = image_bytes("rgb8.png");
  bytes[29] = static_cast<char>(bytes[29] ^ 1);  // the header's
  EXPECT_NE(error_of(bytes).find("CRC"), std::string::npos);
}

TEST(ImageDecoder, HugeOnesAreNotUnpacked) {
  EXPECT_NE(error_of(png_of_size(60000, 60000)).find("60000 x 60000 pixels"), std::string::npos);
  for (const auto& [width, height] :
       {std::pair{1u << 30, 1u}, {1u, 65501u}, {0x7fffffffu, 0x7fffffffu}, {8192u, 4097u}})
    error_of(png_of_size(width, height));
  EXPECT_NE(error_of(jpeg_of_size(65500, 65500)).find("65500 x 65500 pixels"), std::string::npos);
  error_of(png_of_size(0, 5));
  error_of(jpeg_of_size(0, 5));
}

TEST(ImageDecoder, OtherThings) {
  for (const char* text : {"", "GIF88a....", "RIFF....WAVE", "hello", "\xff\xd8", "\x89PNG", "B"})
    EXPECT_NE(error_of(text).find("is no image"), std::string::npos) << text;
  EXPECT_NE(error_of(std::string(kMaxImageBytes + 1, 'x')).find("bytes, at most"),
            std::string::npos);
}

// A scan that says the same once more, 200 times.
TEST(ImageDecoder, AJpegOfEndlessScans) {
  const std::string bytes = image_bytes("progressive.jpg");
  const size_t scan = bytes.find("\xff\xda", bytes.find("\xff\xda") + 2);
  const std::string tail = bytes.substr(scan, bytes.size() - 2 - scan);
  std::string endless = bytes.substr(0, bytes.size() - 2);
  for (int i = 0; i < 200; ++i) endless += tail;
  EXPECT_NE(error_of(endless + "\xff\xd9").find("scans"), std::string::npos);
}

TEST(ImageDecoder, AnyBytes) {
  std::mt19937 random(11);
  int read = 0;
  for (const char* name :
       {"rgb8.png", "palette8.png", "grey16.png", "rgb.jpg", "progressive.jpg", "cmyk.jpg"}) {
    const std::string whole = image_bytes(name);
    for (int i = 0; i < 300; ++i) {
      std::string bytes = whole;
      for (uint32_t k = 0, n = 1 + random() % 4; k < n; ++k)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      try {
        const Image image = decode_image(bytes);
        EXPECT_EQ(image.rgb.size(),
                  size_t{3} * static_cast<size_t>(image.width) * static_cast<size_t>(image.height));
        ++read;
      } catch (const DecodeError&) {
      }
    }
  }
  EXPECT_GT(read, 100);  // a JPEG has no checksum
}

}  // namespace
}  // namespace tandem::decoder
