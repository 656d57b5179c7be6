// libavformat → libavcodec → libswresample, as the program `ffmpeg` has them.
#include "runtime/media/decoder/sound/sound_decoder.h"

extern "C" {
#include <libavcodec/avcodec.h>
}

#include <cmath>
#include <cstdio>
#include <memory>
#include <new>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/sound/codecs.h"
#include "runtime/media/decoder/sound/log_lines.h"
#include "runtime/media/decoder/sound/sound_container.h"
#include "runtime/media/decoder/sound/sound_mixer.h"

namespace tandem::decoder {
namespace {

constexpr size_t kBlock = size_t{1} << 15;  // samples that are handed on together
// Full scale is 1. Sums of a filter over such samples are finite.
constexpr float kLoudest = 1e6f;
constexpr int kLeastRate = 1000, kMostRate = 768000;
constexpr double kSecondsMissed = 0.5;  // what an encoder's padding does not explain

struct FreeCodec {
  void operator()(AVCodecContext* codec) const { avcodec_free_context(&codec); }
};
struct FreePacket {
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
};
struct FreeFrame {
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
};

class Reading {
 public:
  Reading(ByteSource& source, int rate, const SoundLimits& limits, SoundSink& sink)
      : rate_(rate), limits_(limits), sink_(sink), container_(source), mixer_(rate) {
    if (!packet_ || !frame_) throw std::bad_alloc();
    // What was said of other tracks, whose kinds are not decoded, is of no interest.
    log_.forget();
    open_codec();
  }

  std::vector<std::string> run() {
    int code = 0;
    while ((code = container_.next(*packet_)) >= 0) {
      decode(packet_.get());
      av_packet_unref(packet_.get());
    }
    if (code != AVERROR_EOF) log_.add("cannot be read to its end: " + av_words(code));
    decode(nullptr);
    mixer_.finish(block_);
    hand_on();
    if (given_ == 0) {
      const auto lines = log_.texts();
      throw unreadable("has no samples" + (lines.empty() ? "" : " (" + lines.front() + ")"));
    }
    sink_.length(mixer_.seconds());
    note_what_is_missing();
    return log_.texts();
  }

 private:
  void open_codec();
  // Of the track; null: its end.
  void decode(const AVPacket* packet);
  void hear();
  void hand_on();
  void note_what_is_missing();
  double seconds() const { return static_cast<double>(given_) / rate_; }

  LogLines log_;
  int rate_;
  SoundLimits limits_;
  SoundSink& sink_;
  SoundContainer container_;
  SoundMixer mixer_;
  std::unique_ptr<AVCodecContext, FreeCodec> codec_;
  std::unique_ptr<AVPacket, FreePacket> packet_{av_packet_alloc()};
  std::unique_ptr<AVFrame, FreeFrame> frame_{av_frame_alloc()};
  std::vector<float> block_;  // not handed on yet
  uint64_t given_ = 0;        // samples that were
};

void Reading::open_codec() {
  const AVStream& track = container_.track();
  const AVCodec* const codec = avcodec_find_decoder(track.codecpar->codec_id);
  if (codec == nullptr || !is_decoder(codec->name))
    throw unreadable(std::string("has sound of a kind that is not decoded (") +
                     avcodec_get_name(track.codecpar->codec_id) + ")");
  codec_.reset(avcodec_alloc_context3(codec));
  if (!codec_ || avcodec_parameters_to_context(codec_.get(), track.codecpar) < 0)
    throw std::bad_alloc();
  codec_->pkt_timebase = track.time_base;
  codec_->thread_count = 1;
  const int code = avcodec_open2(codec_.get(), codec, nullptr);
  if (code == AVERROR(ENOMEM)) throw std::bad_alloc();
  if (code < 0)
    throw unreadable(std::string("has sound that cannot be decoded (") + codec->name + ": " +
                     av_words(code) + ")");
}

void Reading::decode(const AVPacket* packet) {
  int code = avcodec_send_packet(codec_.get(), packet);
  while (code >= 0) {
    code = avcodec_receive_frame(codec_.get(), frame_.get());
    if (code < 0) break;
    hear();
    av_frame_unref(frame_.get());
  }
  // (A damaged packet may ask for more memory than there is.)
  if (code < 0 && code != AVERROR(EAGAIN) && code != AVERROR_EOF)
    log_.add("a packet was skipped: " + av_words(code));
}

void Reading::hear() {
  const int channels = frame_->ch_layout.nb_channels, rate = frame_->sample_rate;
  if (channels < 1 || channels > limits_.channels)
    throw unreadable("has " + std::to_string(channels) + " channels, from 1 to " +
                     std::to_string(limits_.channels) + " are taken");
  if (rate < kLeastRate || rate > kMostRate)
    throw unreadable("has " + std::to_string(rate) + " samples a second, from " +
                     std::to_string(kLeastRate) + " to " + std::to_string(kMostRate) +
                     " are taken");
  mixer_.add(*frame_, block_);
  if (block_.size() >= kBlock) hand_on();
}

void Reading::hand_on() {
  for (size_t i = 0; i < block_.size(); ++i)
    if (!(std::fabs(block_[i]) <= kLoudest))
      throw unreadable("sample " + std::to_string(given_ + i) +
                       " is not finite, or a million times too loud");
  given_ += block_.size();
  if (seconds() > limits_.seconds)
    throw too_large("has more than the " + std::to_string(std::llround(limits_.seconds)) +
                    " seconds of sound that are taken");
  if (!block_.empty()) sink_.samples(block_);
  block_.clear();
}

void Reading::note_what_is_missing() {
  const double stated = container_.stated_seconds();
  if (stated <= seconds() * 1.01 + kSecondsMissed) return;
  char text[96];
  std::snprintf(text, sizeof text, "the file says that it has %.1f seconds of sound, and has %.1f",
                stated, seconds());
  log_.add(text);
}

}  // namespace

std::vector<std::string> decode_sound(ByteSource& source, int rate, const SoundLimits& limits,
                                      SoundSink& sink) {
  return Reading(source, rate, limits, sink).run();
}

}  // namespace tandem::decoder
