// libavformat over a ByteSource.
#include "runtime/media/decoder/sound/sound_container.h"

extern "C" {
#include <libavutil/dict.h>
#include <libavutil/error.h>
#include <libavutil/mem.h>
}

#include <algorithm>
#include <cstdio>
#include <new>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/sound/codecs.h"

namespace tandem::decoder {
namespace {

constexpr int kBuffer = 1 << 16;

int open_nothing(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) {
  return AVERROR(EPERM);
}

}  // namespace

std::string av_words(int code) {
  char text[AV_ERROR_MAX_STRING_SIZE] = {};
  av_strerror(code, text, sizeof text);
  return text;
}

int SoundContainer::read(void* user, uint8_t* to, int count) {
  auto& bytes = *static_cast<Bytes*>(user);
  const size_t got = bytes.source.read(bytes.at, reinterpret_cast<char*>(to),
                                       static_cast<size_t>(std::max(count, 0)));
  bytes.at += got;
  return got > 0 ? static_cast<int>(got) : AVERROR_EOF;
}

int64_t SoundContainer::seek(void* user, int64_t offset, int whence) {
  auto& bytes = *static_cast<Bytes*>(user);
  const auto size = static_cast<int64_t>(bytes.source.size());
  whence &= ~AVSEEK_FORCE;
  if (whence == AVSEEK_SIZE) return size;
  const int64_t from = whence == SEEK_SET   ? 0
                       : whence == SEEK_CUR ? static_cast<int64_t>(bytes.at)
                       : whence == SEEK_END ? size
                                            : -1;
  int64_t to = 0;
  if (from < 0 || __builtin_add_overflow(from, offset, &to) || to < 0) return AVERROR(EINVAL);
  bytes.at = static_cast<uint64_t>(to);
  return to;
}

SoundContainer::SoundContainer(ByteSource& source) : bytes_{source} {
  try {
    open();
    choose_track();
  } catch (...) {
    close();
    throw;
  }
}

SoundContainer::~SoundContainer() { close(); }

void SoundContainer::close() {
  avformat_close_input(&format_);
  if (io_ != nullptr) av_freep(&io_->buffer);
  avio_context_free(&io_);
}

void SoundContainer::open() {
  auto* const buffer = static_cast<unsigned char*>(av_malloc(kBuffer));
  if (buffer == nullptr) throw std::bad_alloc();
  io_ = avio_alloc_context(buffer, kBuffer, 0, &bytes_, read, nullptr, seek);
  format_ = avformat_alloc_context();
  if (io_ == nullptr || format_ == nullptr) throw std::bad_alloc();
  format_->pb = io_;
  format_->io_open = open_nothing;
  AVDictionary* options = nullptr;
  av_dict_set(&options, "format_whitelist", demuxers().c_str(), 0);
  av_dict_set(&options, "codec_whitelist", decoders().c_str(), 0);
  av_dict_set(&options, "scan_all_pmts", "1", 0);
  const int code = avformat_open_input(&format_, "", nullptr, &options);
  av_dict_free(&options);
  if (code == AVERROR(ENOMEM)) throw too_large("takes more memory to decode than a file may");
  if (code == AVERROR(EINVAL)) throw unreadable("is no sound that can be read, or of a rare kind");
  if (code < 0) throw unreadable("is no sound that can be read (" + av_words(code) + ")");
  // (What it does not find out, the decoder does.)
  avformat_find_stream_info(format_, nullptr);
}

void SoundContainer::choose_track() {
  int64_t best = 0;
  for (unsigned i = 0; i < format_->nb_streams; ++i) {
    AVStream* const stream = format_->streams[i];
    stream->discard = AVDISCARD_ALL;
    if (stream->codecpar->codec_type != AVMEDIA_TYPE_AUDIO) continue;
    const bool has_packets = (stream->event_flags & AVSTREAM_EVENT_FLAG_NEW_PACKETS) != 0;
    const bool is_default = (stream->disposition & AV_DISPOSITION_DEFAULT) != 0;
    // A file may say that it has nearly 2^31 channels.
    const int64_t score = int64_t{stream->codecpar->ch_layout.nb_channels} +
                          (has_packets ? 100'000'000 : 0) + (is_default ? 5'000'000 : 0);
    if (score <= best) continue;
    best = score;
    track_ = stream;
  }
  if (track_ == nullptr) throw unreadable("has no track of sound");
  track_->discard = AVDISCARD_DEFAULT;
}

int SoundContainer::next(AVPacket& packet) {
  for (;;) {
    const int code = av_read_frame(format_, &packet);
    if (code < 0 || packet.stream_index == track_->index) return code;
    av_packet_unref(&packet);
  }
}

double SoundContainer::stated_seconds() const {
  if (track_->duration == AV_NOPTS_VALUE || track_->duration <= 0 ||
      format_->duration_estimation_method == AVFMT_DURATION_FROM_BITRATE)
    return 0;
  return static_cast<double>(track_->duration) * av_q2d(track_->time_base);
}

}  // namespace tandem::decoder
