// Sound by the program that decodes it.
#include "runtime/media/sound/audio_file.h"

#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
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
  std::vector<float> read;  // and not returned yet
  std::vector<float> decoded = {};
  std::optional<VoiceFilter> filter = {};
  std::vector<SpeechSpan> speech = {};

  void read_on();

  State(const MediaSource& source, const std::string& field, int rate, const AudioLimits& limits)
      : run(DecoderPool::of_process(), source, job_of(source, rate, limits), field) {}
};

void AudioFile::State::read_on() {
  if (run.next(payload) != decoder::FrameKind::kSamples) {
    ended = true;
    if (filter) speech = filter->finish();
    return;
  }
  std::vector<float>& to = filter ? decoded : read;
  to.resize(payload.size() / sizeof(float));
  std::memcpy(to.data(), payload.data(), payload.size());
  if (filter) filter->add(decoded);
}

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

double AudioFile::seconds() const { return state_->run.length(); }

void AudioFile::keep_speech(std::shared_ptr<const VoiceWeights> weights,
                            const VoiceOptions& options) {
  TANDEM_CHECK(!state_->filter && !state_->ended && state_->read.empty());
  state_->filter.emplace(std::move(weights), options,
                         [to = &state_->read](std::span<const float> samples) {
                           to->insert(to->end(), samples.begin(), samples.end());
                         });
}

const std::vector<SpeechSpan>& AudioFile::speech() const { return state_->speech; }

bool AudioFile::has_samples() {
  State& s = *state_;
  while (s.read.empty() && !s.ended) s.read_on();
  return !s.read.empty();
}

bool AudioFile::read(std::vector<float>& samples) {
  samples.clear();
  if (!has_samples()) return false;
  samples.swap(state_->read);
  return true;
}

const std::vector<std::string>& AudioFile::warnings() const { return state_->run.warnings(); }

}  // namespace tandem
