// Images by the program that reads them.
#include "runtime/media/image/image_file.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "runtime/media/decoder_run.h"

namespace tandem {

Image decode_image(std::string_view bytes, const std::string& field) {
  if (bytes.empty()) throw invalid_request(field, "is empty");
  if (bytes.size() > kMaxImageBytes)
    throw InputError(ErrorKind::kResource,
                     field + ": has " + std::to_string(bytes.size()) + " bytes, at most " +
                         std::to_string(kMaxImageBytes) + " are read",
                     field);
  const MediaSource source = MediaSource::of_bytes(bytes, field);
  decoder::Job job;
  job.kind = decoder::JobKind::kImage;
  job.size = source.size();
  DecoderRun run(DecoderPool::of_process(), source, job, field);
  return receive_image(run, field);
}

Image receive_image(DecoderRun& run, const std::string& field) {
  Image out;
  size_t got = 0;
  std::string payload;
  for (;;) {
    switch (run.next(payload)) {
      case decoder::FrameKind::kImage: {
        decoder::ImageSize size;
        if (payload.size() != sizeof size || !out.rgb.empty()) run.fail_as_nonsense();
        std::memcpy(&size, payload.data(), sizeof size);
        if (size.width < 1 || size.height < 1 || size.width > kMaxImageSide ||
            size.height > kMaxImageSide || int64_t{size.width} * size.height > kMaxImagePixels)
          run.fail_as_nonsense();
        out.width = size.width;
        out.height = size.height;
        out.rgb.resize(size_t{3} * static_cast<size_t>(size.width) *
                       static_cast<size_t>(size.height));
        break;
      }
      case decoder::FrameKind::kPixels:
        if (payload.size() > out.rgb.size() - got) run.fail_as_nonsense();
        std::memcpy(out.rgb.data() + got, payload.data(), payload.size());
        got += payload.size();
        break;
      default:
        if (out.rgb.empty() || got != out.rgb.size())
          throw invalid_request(field, "the decoder gave fewer pixels than it said");
        return out;
    }
  }
}

std::string read_image_file(const std::string& path, const std::string& field) {
  return MediaSource::open(path, field, kMaxImageBytes).bytes(field, kMaxImageBytes);
}

}  // namespace tandem
