// Sound by the program that decodes it.
#include "runtime/media/sound/audio_file.h"

#include <cstring>
#include <utility>

#include "runtime/media/decoder_run.h"

namespace tandem {
namespace {

decoder::Job job_of(const MediaSource& source, int rate, const AudioLimits& limits) {
  decoder::Job job;
  job.kind = decoder::JobKind::kSound;
  job.size = source.size();
  job.rate = rate;
  job.channels = limits.channels;
  job.seconds = limits.seconds;
  return job;
}

}  // namespace

struct AudioFile::State {
  DecoderRun run;
  bool ended = false;
  std::string payload = {};

  State(const MediaSource& source, const std::string& field, int rate, const AudioLimits& limits)
      : run(DecoderPool::of_process(), source, job_of(source, rate, limits), field) {}
};

AudioFile::AudioFile(std::unique_ptr<State> state) : state_(std::move(state)) {}
AudioFile::AudioFile(AudioFile&&) noexcept = default;
AudioFile::~AudioFile() = default;

AudioFile AudioFile::open(const MediaSource& source, const std::string& field, int rate,
                          const AudioLimits& limits) {
  return AudioFile(std::make_unique<State>(source, field, rate, limits));
}

AudioFile AudioFile::of_bytes(std::string_view bytes, const std::string& field, int rate,
                              const AudioLimits& limits) {
  return open(MediaSource::of_bytes(bytes, field), field, rate, limits);
}

double AudioFile::seconds() const { return state_->run.seconds(); }

bool AudioFile::read(std::vector<float>& samples) {
  samples.clear();
  State& s = *state_;
  while (samples.empty() && !s.ended) {
    if (s.run.next(s.payload) != decoder::FrameKind::kSamples) {
      s.ended = true;
      break;
    }
    samples.resize(s.payload.size() / sizeof(float));
    std::memcpy(samples.data(), s.payload.data(), s.payload.size());
  }
  return !samples.empty();
}

const std::vector<std::string>& AudioFile::warnings() const { return state_->run.warnings(); }

}  // namespace tandem
