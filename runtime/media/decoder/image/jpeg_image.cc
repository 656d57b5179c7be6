// JPEG through libjpeg.
// Each needs the one before.
// clang-format off
#include <cstdio>
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include <csetjmp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/image/color.h"
#include "runtime/media/decoder/image/exif_orientation.h"
#include "runtime/media/decoder/image/image_formats.h"

namespace tandem::decoder {
namespace {

// libjpeg leaves by longjmp(): what it may leave has no destructors on its stack; buffers are made
// outside.
class JpegReader {
 public:
  explicit JpegReader(std::string_view bytes) : bytes_(bytes) {
    jpeg_.err = jpeg_std_error(&errors_);
    jpeg_.client_data = this;
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    errors_.output_message = [](j_common_ptr) {};
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  bool read_header() {
    if (setjmp(left_) != 0) return false;
    jpeg_create_decompress(&jpeg_);
    progress_.progress_monitor = on_progress;
    jpeg_.progress = &progress_;
    jpeg_mem_src(&jpeg_, reinterpret_cast<const unsigned char*>(bytes_.data()), bytes_.size());
    jpeg_save_markers(&jpeg_, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(&jpeg_, TRUE);
    return true;
  }
  bool start() {
    if (setjmp(left_) != 0) return false;
    const int components = jpeg_.num_components;
    jpeg_.out_color_space = components == 1 ? JCS_GRAYSCALE : components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&jpeg_);
    return true;
  }
  bool read_row(uint8_t* to) {
    if (setjmp(left_) != 0) return false;
    JSAMPROW row = to;
    return jpeg_read_scanlines(&jpeg_, &row, 1) == 1;
  }

  int64_t width() const { return jpeg_.image_width; }
  int64_t height() const { return jpeg_.image_height; }
  int components() const { return jpeg_.output_components; }
  const char* message() const { return message_; }
  int orientation() const {
    for (auto* marker = jpeg_.marker_list; marker != nullptr; marker = marker->next) {
      const std::string_view data(reinterpret_cast<const char*>(marker->data), marker->data_length);
      if (data.starts_with(std::string_view("Exif\0\0", 6))) return exif_orientation(data);
    }
    return 1;
  }

 private:
  static JpegReader& self(j_common_ptr jpeg) {
    return *static_cast<JpegReader*>(jpeg->client_data);
  }
  [[noreturn]] static void on_error(j_common_ptr jpeg) {
    jpeg->err->format_message(jpeg, self(jpeg).message_);
    std::longjmp(self(jpeg).left_, 1);
  }
  // Grey instead of what is missing is no answer; other warnings Pillow passes over, too.
  static void on_message(j_common_ptr jpeg, int level) {
    if (level < 0 && jpeg->err->msg_code == JWRN_JPEG_EOF) on_error(jpeg);
  }
  static void on_progress(j_common_ptr jpeg) {
    if (self(jpeg).jpeg_.input_scan_number <= kMaxImageScans) return;
    std::snprintf(self(jpeg).message_, JMSG_LENGTH_MAX, "more than %d scans", kMaxImageScans);
    std::longjmp(self(jpeg).left_, 1);
  }

  std::string_view bytes_;
  jpeg_decompress_struct jpeg_ = {};
  jpeg_error_mgr errors_ = {};
  jpeg_progress_mgr progress_ = {};
  std::jmp_buf left_;
  char message_[JMSG_LENGTH_MAX] = "";
};

}  // namespace

Image decode_jpeg(std::string_view bytes) {
  JpegReader reader(bytes);
  const auto check = [&](bool well) {
    if (!well) throw unreadable(std::string("is a broken JPEG image: ") + reader.message());
  };
  check(reader.read_header());
  check_image_size(reader.width(), reader.height());
  check(reader.start());
  Image out;
  out.width = static_cast<int>(reader.width());
  out.height = static_cast<int>(reader.height());
  out.rgb.resize(size_t{3} * static_cast<size_t>(out.width) * static_cast<size_t>(out.height));
  const int components = reader.components();
  std::vector<uint8_t> raw(static_cast<size_t>(components) * static_cast<size_t>(out.width));
  for (int y = 0; y < out.height; ++y) {
    uint8_t* row = out.row(y);
    check(reader.read_row(components == 3 ? row : raw.data()));
    if (components == 4) {
      // Pillow takes every CMYK file for an inverted one, as Adobe's are.
      for (uint8_t& ink : raw) ink = static_cast<uint8_t>(255 - ink);
      cmyk_to_rgb(raw.data(), row, out.width);
    }
    if (components == 1)
      for (int x = 0; x < 3 * out.width; ++x) row[x] = raw[static_cast<size_t>(x / 3)];
  }
  return upright(std::move(out), reader.orientation());
}

}  // namespace tandem::decoder
