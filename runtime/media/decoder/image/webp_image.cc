// WebP through libwebpdemux's decoder of animations, which Pillow uses for all of them.
#include <webp/decode.h>
#include <webp/demux.h>

#include <cstring>
#include <memory>
#include <utility>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/image/exif_orientation.h"
#include "runtime/media/decoder/image/image_formats.h"

namespace tandem::decoder {
namespace {

struct FreeDecoder {
  void operator()(WebPAnimDecoder* decoder) const { WebPAnimDecoderDelete(decoder); }
};

int orientation_of(const WebPDemuxer* demuxer) {
  WebPChunkIterator chunk = {};
  int out = 1;
  if (WebPDemuxGetChunk(demuxer, "EXIF", 1, &chunk) != 0)
    out = exif_orientation({reinterpret_cast<const char*>(chunk.chunk.bytes), chunk.chunk.size});
  WebPDemuxReleaseChunkIterator(&chunk);
  return out;
}

}  // namespace

Image decode_webp(std::string_view bytes) {
  const WebPData data = {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
  const auto broken = [] { return unreadable("is a broken WebP image"); };
  // The size, before the decoder makes a canvas of it.
  WebPDemuxer* const demuxer = WebPDemux(&data);
  if (demuxer == nullptr) throw broken();
  const int64_t width = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_WIDTH),
                height = WebPDemuxGetI(demuxer, WEBP_FF_CANVAS_HEIGHT);
  WebPDemuxDelete(demuxer);
  check_image_size(width, height);
  WebPAnimDecoderOptions options;
  if (WebPAnimDecoderOptionsInit(&options) == 0) throw broken();
  options.color_mode = MODE_RGBA;
  options.use_threads = 0;
  const std::unique_ptr<WebPAnimDecoder, FreeDecoder> decoder(WebPAnimDecoderNew(&data, &options));
  uint8_t* pixels = nullptr;
  int time = 0;
  if (!decoder || WebPAnimDecoderGetNext(decoder.get(), &pixels, &time) == 0) throw broken();
  Image out = make_image(width, height);
  for (size_t i = 0; i < out.rgb.size() / 3; ++i) std::memcpy(&out.rgb[3 * i], pixels + 4 * i, 3);
  return upright(std::move(out), orientation_of(WebPAnimDecoderGetDemuxer(decoder.get())));
}

}  // namespace tandem::decoder
