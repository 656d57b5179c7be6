// libswresample over a file's frames.
#include "runtime/media/decoder/sound/sound_mixer.h"

extern "C" {
#include <libavutil/channel_layout.h>
#include <libavutil/samplefmt.h>
}

#include <algorithm>
#include <string>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/sound/sound_container.h"

namespace tandem::decoder {

SoundMixer::~SoundMixer() {
  swr_free(&swr_);
  av_channel_layout_uninit(&layout_);
}

void SoundMixer::start(const AVFrame& frame) {
  swr_free(&swr_);
  av_channel_layout_uninit(&layout_);
  if (av_channel_layout_copy(&layout_, &frame.ch_layout) < 0) throw std::bad_alloc();
  format_ = frame.format;
  if (frame.sample_rate != frame_rate_) {
    seconds_ = seconds();
    frames_ = 0;
  }
  frame_rate_ = frame.sample_rate;
  AVChannelLayout in = {};
  const int channels = frame.ch_layout.nb_channels;
  if (frame.ch_layout.order == AV_CHANNEL_ORDER_UNSPEC)
    av_channel_layout_default(&in, channels);
  else if (av_channel_layout_copy(&in, &frame.ch_layout) < 0)
    throw std::bad_alloc();
  AVChannelLayout mono = AV_CHANNEL_LAYOUT_MONO;
  int code =
      swr_alloc_set_opts2(&swr_, &mono, AV_SAMPLE_FMT_FLT, rate_, &in,
                          static_cast<AVSampleFormat>(frame.format), frame.sample_rate, 0, nullptr);
  if (code >= 0) code = swr_init(swr_);
  if (code < 0 && swr_ != nullptr && channels > 1) {
    // Nobody has said where these channels are: their mean.
    const std::vector<double> mean(static_cast<size_t>(channels), 1.0 / channels);
    code = swr_set_matrix(swr_, mean.data(), channels);
    if (code >= 0) code = swr_init(swr_);
  }
  av_channel_layout_uninit(&in);
  if (code < 0)
    throw unreadable("has " + std::to_string(channels) + " channels at " +
                     std::to_string(frame.sample_rate) + " samples a second, which cannot be " +
                     "converted (" + av_words(code) + ")");
}

void SoundMixer::convert(const uint8_t** data, int count, std::vector<float>& out) {
  const int most = swr_get_out_samples(swr_, count);
  if (most <= 0) return;
  const size_t before = out.size();
  out.resize(before + static_cast<size_t>(most));
  auto* to = reinterpret_cast<uint8_t*>(out.data() + before);
  const int got = swr_convert(swr_, &to, most, data, count);
  out.resize(before + static_cast<size_t>(std::max(got, 0)));
  if (got < 0) throw unreadable("cannot be converted (" + av_words(got) + ")");
}

void SoundMixer::add(const AVFrame& frame, std::vector<float>& out) {
  if (swr_ == nullptr || frame.format != format_ || frame.sample_rate != frame_rate_ ||
      av_channel_layout_compare(&frame.ch_layout, &layout_) != 0)
    start(frame);
  frames_ += static_cast<uint64_t>(frame.nb_samples);
  convert(const_cast<const uint8_t**>(frame.extended_data), frame.nb_samples, out);
}

void SoundMixer::finish(std::vector<float>& out) {
  if (swr_ == nullptr) return;
  for (size_t before = out.size() + 1; before != out.size();) {
    before = out.size();
    convert(nullptr, 0, out);
  }
}

}  // namespace tandem::decoder
