// The container of a file of sound, or of a film: packets of its sound.
#pragma once

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
}

#include <memory>
#include <string>

#include "runtime/media/decoder/byte_source.h"

namespace tandem::decoder {

// Opens nothing but the source: a file that names others does without them. Used by one thread.
class SoundContainer {
 public:
  // `source` outlives it. Throws DecodeError: no container that is read, or none with sound.
  explicit SoundContainer(ByteSource& source);
  SoundContainer(const SoundContainer&) = delete;
  SoundContainer& operator=(const SoundContainer&) = delete;
  ~SoundContainer();

  // The track of sound that is heard, the one that `ffmpeg` takes: one that is marked as the
  // default before others, then the one with most channels, then the first.
  const AVStream& track() const { return *track_; }
  // The next packet of the track into `packet`. Returns libav's code: AVERROR_EOF at the end,
  // something else that is negative where the file cannot be read further.
  int next(AVPacket& packet);
  // Of the track, as the file says; 0: it does not, or guesses.
  double stated_seconds() const;

 private:
  struct Bytes {
    ByteSource& source;
    uint64_t at = 0;
  };
  static int read(void* bytes, uint8_t* to, int count);
  static int64_t seek(void* bytes, int64_t offset, int whence);
  void open();
  void choose_track();
  void close();

  Bytes bytes_;
  AVIOContext* io_ = nullptr;
  AVFormatContext* format_ = nullptr;
  AVStream* track_ = nullptr;
};

// An error of FFmpeg's libraries in words.
std::string av_words(int code);

}  // namespace tandem::decoder
