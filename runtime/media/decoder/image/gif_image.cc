// GIF through giflib: the first image, on a canvas of the screen's size, as Pillow lays it there.
#include <gif_lib.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/image/image_formats.h"

namespace tandem::decoder {
namespace {

struct Bytes {
  std::string_view data;
  size_t at = 0;
};

int read_bytes(GifFileType* gif, GifByteType* to, int count) {
  auto& bytes = *static_cast<Bytes*>(gif->UserData);
  const size_t got = bytes.data.copy(reinterpret_cast<char*>(to),
                                     static_cast<size_t>(std::max(count, 0)), bytes.at);
  bytes.at += got;
  return static_cast<int>(got);
}

struct CloseGif {
  void operator()(GifFileType* gif) const { DGifCloseFile(gif, nullptr); }
};

class GifReader {
 public:
  explicit GifReader(std::string_view bytes) : bytes_{bytes} {
    int error = 0;
    gif_.reset(DGifOpen(&bytes_, read_bytes, &error));
    if (!gif_) fail(error);
  }

  Image read() {
    find_image();
    const GifImageDesc& image = gif_->Image;
    const int64_t right = int64_t{image.Left} + image.Width,
                  bottom = int64_t{image.Top} + image.Height;
    const int64_t width = std::max<int64_t>(gif_->SWidth, right),
                  height = std::max<int64_t>(gif_->SHeight, bottom);
    check_image_size(image.Width, image.Height);
    check_image_size(width, height);
    Image out = make_image(width, height);
    const ColorMapObject* const colors =
        image.ColorMap != nullptr ? image.ColorMap : gif_->SColorMap;
    // What the image does not cover.
    const auto ground = color_of(colors, transparent_.value_or(0));
    for (size_t i = 0; i < out.rgb.size(); ++i) out.rgb[i] = ground[i % 3];
    std::vector<GifPixelType> line(static_cast<size_t>(image.Width));
    for (const auto& [first, step] : passes())
      for (int y = first; y < image.Height; y += step) {
        if (DGifGetLine(gif_.get(), line.data(), image.Width) == GIF_ERROR) fail(gif_->Error);
        uint8_t* to = out.row(image.Top + y) + 3 * image.Left;
        for (const GifPixelType pixel : line) {
          const auto color = color_of(colors, pixel);
          to = std::copy(color.begin(), color.end(), to);
        }
      }
    return out;
  }

 private:
  [[noreturn]] static void fail(int error) {
    const char* const text = GifErrorString(error);
    throw unreadable(std::string("is a broken GIF image: ") + (text != nullptr ? text : "cut"));
  }
  // Beside a palette, or without one, an index is a grey.
  static std::array<uint8_t, 3> color_of(const ColorMapObject* colors, int index) {
    if (colors == nullptr || index >= colors->ColorCount) {
      const auto grey = static_cast<uint8_t>(index);
      return {grey, grey, grey};
    }
    const GifColorType& color = colors->Colors[index];
    return {color.Red, color.Green, color.Blue};
  }
  // First row and distance of each pass over the rows.
  std::vector<std::pair<int, int>> passes() const {
    if (gif_->Image.Interlace) return {{0, 8}, {4, 8}, {2, 4}, {1, 2}};
    return {{0, 1}};
  }
  void find_image();
  void read_extension();

  Bytes bytes_;
  std::unique_ptr<GifFileType, CloseGif> gif_;
  std::optional<int> transparent_;
};

void GifReader::read_extension() {
  int code = 0;
  GifByteType* block = nullptr;
  if (DGifGetExtension(gif_.get(), &code, &block) == GIF_ERROR) fail(gif_->Error);
  GraphicsControlBlock control;
  if (code == GRAPHICS_EXT_FUNC_CODE && block != nullptr &&
      DGifExtensionToGCB(block[0], block + 1, &control) == GIF_OK &&
      control.TransparentColor != NO_TRANSPARENT_COLOR)
    transparent_ = control.TransparentColor;
  while (block != nullptr)
    if (DGifGetExtensionNext(gif_.get(), &block) == GIF_ERROR) fail(gif_->Error);
}

void GifReader::find_image() {
  for (;;) {
    GifRecordType type = UNDEFINED_RECORD_TYPE;
    if (DGifGetRecordType(gif_.get(), &type) == GIF_ERROR) fail(gif_->Error);
    if (type == TERMINATE_RECORD_TYPE) throw unreadable("is a GIF file without an image");
    if (type == EXTENSION_RECORD_TYPE) read_extension();
    if (type != IMAGE_DESC_RECORD_TYPE) continue;
    if (DGifGetImageDesc(gif_.get()) == GIF_ERROR) fail(gif_->Error);
    return;
  }
}

}  // namespace

Image decode_gif(std::string_view bytes) { return GifReader(bytes).read(); }

}  // namespace tandem::decoder
