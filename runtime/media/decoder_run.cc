// A job and its bounds: of time that the decoder computes, and that it is waited for.
#include "runtime/media/decoder_run.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/strings/printable.h"

namespace tandem {
namespace {

using decoder::FrameKind;

// Generous: a slow machine has another ten times the time of one of today's.
constexpr double kProcessorSeconds = 30, kWaitSeconds = 120;
constexpr double kBytesASecond = 4 << 20;  // that are read at least, of a film too
constexpr double kSoundASecond = 8;        // seconds of sound that are decoded at least
constexpr double kAllowedFor = 60;         // seconds of sound; then there is more time
constexpr size_t kMostText = 300;

}  // namespace

DecoderRun::DecoderRun(DecoderPool& pool, const MediaSource& source, const decoder::Job& job,
                       std::string field)
    : pool_(pool), source_(source), job_(job), field_(std::move(field)), process_(pool.take()) {
  allow();
  if (!process_->send(job_, source_.fd())) fail(process_->end());
}

DecoderRun::~DecoderRun() {
  if (process_) pool_.give_back(nullptr);
}

bool DecoderRun::has_length() const {
  return job_.kind == decoder::JobKind::kSound ||
         (job_.kind == decoder::JobKind::kDocument && job_.channels == 0);
}

double DecoderRun::seconds_made() const {
  return job_.rate > 0 ? static_cast<double>(samples_) / job_.rate : 0;
}

double DecoderRun::seconds_to_read() const {
  return static_cast<double>(source_.size()) / kBytesASecond;
}

void DecoderRun::allow() {
  process_->allow(kProcessorSeconds + seconds_to_read());
  allowed_for_ = seconds_made();
}

void DecoderRun::fail(const std::string& why) {
  std::string text = "the decoder " + why + " while reading the file";
  if (why == "ended on signal 24")
    text = "takes more processor time to decode than such a file may";
  if (why == "ended with status " + std::to_string(decoder::kExitNoMemory))
    text = "takes more memory to decode than a file may";
  process_.reset();
  pool_.give_back(nullptr);
  throw invalid_request(field_, text);
}

void DecoderRun::refuse(const std::string& payload) {
  decoder::ErrorHeader header;
  if (payload.size() < sizeof header) fail_as_nonsense();
  std::memcpy(&header, payload.data(), sizeof header);
  const std::string text = printable(std::string_view(payload).substr(sizeof header), kMostText);
  pool_.give_back(std::move(process_));
  throw InputError(header.too_large != 0 ? ErrorKind::kResource : ErrorKind::kInvalidRequest,
                   field_ + ": " + text, field_);
}

void DecoderRun::take_length(const std::string& payload) {
  if (payload.size() != sizeof length_) fail_as_nonsense();
  std::memcpy(&length_, payload.data(), sizeof length_);
  if (!(length_ >= 0 && std::isfinite(length_))) fail_as_nonsense();
}

FrameKind DecoderRun::next(std::string& payload) {
  for (;;) {
    if (seconds_made() > allowed_for_ + kAllowedFor) allow();
    const double most = kWaitSeconds + seconds_to_read() + seconds_made() / kSoundASecond;
    double left = most - waited_;
    decoder::FrameHeader header;
    const auto got = process_->receive(header, payload, left);
    waited_ = most - left;
    if (got == DecoderProcess::Got::kEnd) fail(process_->end());
    if (got == DecoderProcess::Got::kLate) fail("took too long");
    if (got == DecoderProcess::Got::kNonsense) fail_as_nonsense();
    switch (header.kind) {
      case FrameKind::kSamples:
        if (job_.kind != decoder::JobKind::kSound || payload.size() % sizeof(float) != 0)
          fail_as_nonsense();
        samples_ += payload.size() / sizeof(float);
        // (Its own bound is the same; it is not trusted with it.)
        if (seconds_made() > job_.seconds + 60) fail_as_nonsense();
        return header.kind;
      case FrameKind::kImage:
      case FrameKind::kPixels:
        if (job_.kind == decoder::JobKind::kSound) fail_as_nonsense();
        return header.kind;
      case FrameKind::kWarning:
        if (warnings_.size() >= decoder::kMostWarnings) fail_as_nonsense();
        warnings_.push_back(printable(payload, kMostText));
        break;
      case FrameKind::kError: refuse(payload);
      case FrameKind::kDone:
        if (has_length()) take_length(payload);
        pool_.give_back(std::move(process_));
        return header.kind;
      case FrameKind::kHello: fail_as_nonsense();
    }
  }
}

}  // namespace tandem
