// Frames of sound as they are in the file → mono samples of one rate.
#pragma once

extern "C" {
#include <libavutil/frame.h>
#include <libswresample/swresample.h>
}

#include <cstdint>
#include <vector>

namespace tandem::decoder {

// libswresample as the program `ffmpeg` uses it for `-ar RATE -ac 1 -f f32le`, sample by sample.
// Used by one thread.
class SoundMixer {
 public:
  explicit SoundMixer(int rate) : rate_(rate) {}
  SoundMixer(const SoundMixer&) = delete;
  SoundMixer& operator=(const SoundMixer&) = delete;
  ~SoundMixer();

  // Appends what is ready to `out`. A frame of another format, rate or layout than the one before
  // starts anew; then what was still in the filter, a millisecond, is dropped, as there.
  // Throws DecodeError: it cannot be converted.
  void add(const AVFrame& frame, std::vector<float>& out);
  // The end: appends what is left.
  void finish(std::vector<float>& out);
  // Of all frames, by their own samples and rates.
  double seconds() const {
    return seconds_ + (frame_rate_ > 0 ? static_cast<double>(frames_) / frame_rate_ : 0);
  }

 private:
  void start(const AVFrame& frame);
  void convert(const uint8_t** data, int count, std::vector<float>& out);

  int rate_;
  SwrContext* swr_ = nullptr;
  // Of the last frame.
  int format_ = -1, frame_rate_ = 0;
  AVChannelLayout layout_ = {};
  double seconds_ = 0;   // at other rates before
  uint64_t frames_ = 0;  // at this one
};

}  // namespace tandem::decoder
