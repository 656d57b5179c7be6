// PNG through libpng.
#include <png.h>

#include <algorithm>
#include <csetjmp>
#include <cstring>
#include <utility>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/image/exif_orientation.h"
#include "runtime/media/decoder/image/image_formats.h"

namespace tandem::decoder {
namespace {

// libpng leaves by longjmp(): what it may leave has no destructors on its stack; buffers are made
// outside.
class PngReader {
 public:
  explicit PngReader(std::string_view bytes) : bytes_(bytes) {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  bool read_header() {
    if (png_ == nullptr || info_ == nullptr) return false;
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_user_limits(png_, static_cast<png_uint_32>(kMaxImageSide),
                        static_cast<png_uint_32>(kMaxImageSide));
    png_set_chunk_cache_max(png_, 64);
    png_set_chunk_malloc_max(png_, png_alloc_size_t{4} << 20);
    png_set_read_fn(png_, this, on_read);
    png_read_info(png_, info_);
    width_ = png_get_image_width(png_, info_);
    height_ = png_get_image_height(png_, info_);
    return true;
  }

  // One sample a byte, but for grey ones of 16 bits.
  bool set_transforms() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const int depth = png_get_bit_depth(png_, info_);
    colors_ = png_get_color_type(png_, info_);
    wide_grey_ = depth == 16 && colors_ == PNG_COLOR_TYPE_GRAY;
    if (depth == 16 && !wide_grey_) png_set_strip_16(png_);
    if (depth < 8 && colors_ == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    if (depth < 8) png_set_packing(png_);
    if ((colors_ & PNG_COLOR_MASK_ALPHA) != 0) png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    row_bytes_ = png_get_rowbytes(png_, info_);
    png_get_PLTE(png_, info_, &palette_, &palette_size_);
    png_get_eXIf_1(png_, info_, &exif_size_, &exif_);
    return true;
  }

  bool read_rows(png_bytep* rows) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_read_image(png_, rows);
    return true;
  }

  int64_t width() const { return width_; }
  int64_t height() const { return height_; }
  size_t row_bytes() const { return row_bytes_; }
  const char* message() const { return message_; }
  int orientation() const {
    if (exif_ == nullptr) return 1;
    return exif_orientation({reinterpret_cast<const char*>(exif_), exif_size_});
  }

  // One row → RGB.
  void to_rgb(const uint8_t* from, uint8_t* to) const {
    const auto width = static_cast<size_t>(width_);
    if ((colors_ & PNG_COLOR_MASK_PALETTE) != 0) {
      for (size_t x = 0; x < width; ++x, to += 3) {
        const bool known = palette_ != nullptr && from[x] < palette_size_;
        const png_color color = known ? palette_[from[x]] : png_color{};
        to[0] = color.red, to[1] = color.green, to[2] = color.blue;
      }
    } else if ((colors_ & PNG_COLOR_MASK_COLOR) != 0) {
      std::memcpy(to, from, 3 * width);
    } else {
      for (size_t x = 0; x < width; ++x, to += 3) {
        const bool over = wide_grey_ && from[2 * x] != 0;
        to[0] = to[1] = to[2] = over ? 255 : wide_grey_ ? from[2 * x + 1] : from[x];
      }
    }
  }

 private:
  [[noreturn]] static void on_error(png_structp png, png_const_charp message) {
    auto& self = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::strncpy(self.message_, message, sizeof(self.message_) - 1);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void on_read(png_structp png, png_bytep to, size_t size) {
    auto& self = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (size > self.bytes_.size() - self.at_) png_error(png, "the file is cut");
    std::memcpy(to, self.bytes_.data() + self.at_, size);
    self.at_ += size;
  }

  std::string_view bytes_;
  size_t at_ = 0;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  int64_t width_ = 0, height_ = 0;
  size_t row_bytes_ = 0;
  int colors_ = 0;
  bool wide_grey_ = false;
  png_colorp palette_ = nullptr;
  int palette_size_ = 0;
  png_bytep exif_ = nullptr;
  png_uint_32 exif_size_ = 0;
  char message_[120] = "";
};

}  // namespace

Image decode_png(std::string_view bytes) {
  PngReader reader(bytes);
  const auto check = [&](bool well) {
    if (!well) throw unreadable(std::string("is a broken PNG image: ") + reader.message());
  };
  check(reader.read_header());
  check_image_size(reader.width(), reader.height());
  check(reader.set_transforms());
  const auto height = static_cast<size_t>(reader.height());
  std::vector<uint8_t> raw(reader.row_bytes() * height);
  std::vector<png_bytep> rows(height);
  for (size_t y = 0; y < height; ++y) rows[y] = raw.data() + y * reader.row_bytes();
  check(reader.read_rows(rows.data()));
  Image out;
  out.width = static_cast<int>(reader.width());
  out.height = static_cast<int>(reader.height());
  const size_t row = 3 * static_cast<size_t>(out.width);
  if (reader.row_bytes() == row) {  // these bytes already
    out.rgb = std::move(raw);
    return upright(std::move(out), reader.orientation());
  }
  out.rgb.resize(row * height);
  for (int y = 0; y < out.height; ++y) reader.to_rgb(rows[static_cast<size_t>(y)], out.row(y));
  return upright(std::move(out), reader.orientation());
}

}  // namespace tandem::decoder
