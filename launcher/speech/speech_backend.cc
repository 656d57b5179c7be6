#include "launcher/speech/speech_backend.h"

#include <utility>

#include "models/family.h"

namespace tandem::launcher {
namespace {

constexpr const char* kField = "audio";
// Of sound whose spectrograms are in memory at once, 115 MB an hour; one file is always taken.
constexpr double kMostActiveSeconds = 4 * 3600;

}  // namespace

SpeechBackend::SpeechBackend(Backend& inner, std::filesystem::path model)
    : inner_(inner), model_(std::move(model)) {}

void SpeechBackend::load() {
  if (settings_) return;
  if (model_.empty())
    throw not_supported(kField, "not built yet at a server (--connect); give --model");
  const ModelConfig config = ModelConfig::load(model_);
  settings_ = std::make_shared<SpeechSettings>(SpeechSettings::load(config));
  if (inner_.tokenizer() == nullptr) own_tokenizer_ = load_tokenizer(model_);
}

void SpeechBackend::send(Job job, JsonRequest request) {
  if (sink_ && !streams_) {
    inner_.stream_to([this](uint64_t number, const proto::RequestChunk& chunk) {
      const auto it = jobs_.find(number);
      if (it != jobs_.end() && !it->second.transcription) sink_(it->second.number, chunk);
    });
    streams_ = true;
  }
  const uint64_t number = next_++;
  jobs_.emplace(number, std::move(job));
  try {
    inner_.submit(number, std::move(request));
  } catch (...) {
    jobs_.erase(number);
    throw;
  }
}

void SpeechBackend::submit(uint64_t number, JsonRequest request) {
  if (request.audio.empty()) return send({number, nullptr}, std::move(request));
  load();
  waiting_.emplace_back(number, std::move(request));
}

// Opens the file, and sends the first request of its transcription, or the only one of a decoder
// prompt that was given.
void SpeechBackend::begin(uint64_t number, JsonRequest request) {
  AudioFile file = AudioFile::open(request.audio, kField, settings_->mel.sampling_rate);
  LogMel mel = settings_->frames_of(file, kField);
  if (request.speech.is_null()) {
    if (mel.frames > settings_->window_frames)
      throw InputError(ErrorKind::kResource,
                       "audio: is longer than a window of " +
                           std::to_string(settings_->mel.chunk_length) +
                           " seconds; without a decoder prompt of its own it is transcribed window "
                           "by window",
                       kField);
    *request.prompt.mutable_encoder()->mutable_frames() = window_of(mel, *settings_, 0);
    return send({number, nullptr}, std::move(request));
  }
  Job job{number, std::make_unique<Transcription>(settings_, std::move(mel),
                                                  TranscriptionParams::read(request.speech),
                                                  std::move(request.options))};
  const double seconds = job.transcription->seconds();
  total_ += seconds;
  active_ += seconds;
  try {
    if (!go_on(job)) throw invalid_request(kField, "has no sound");
  } catch (...) {
    active_ -= seconds;
    done_ += seconds;
    throw;
  }
}

// Sends the next request, and the job with it; false: there is none.
bool SpeechBackend::go_on(Job& job) {
  std::optional<Transcription::Request> next = job.transcription->next();
  if (!next) return false;
  JsonRequest request;
  request.prompt = std::move(next->prompt);
  request.options = std::move(next->options);
  send(std::move(job), std::move(request));
  return true;
}

void SpeechBackend::start(std::vector<Finished>& out) {
  while (!waiting_.empty() && (active_ == 0 || active_ < kMostActiveSeconds)) {
    auto [number, request] = std::move(waiting_.front());
    waiting_.pop_front();
    try {
      begin(number, std::move(request));
    } catch (const InputError& error) {
      out.push_back({number, {}, error, 0});
    }
  }
}

std::vector<Backend::Finished> SpeechBackend::poll() {
  std::vector<Finished> out;
  start(out);
  if (jobs_.empty()) return out;
  for (Finished& finished : inner_.poll()) {
    auto node = jobs_.extract(finished.number);
    Job job = std::move(node.mapped());
    finished.number = job.number;
    if (!job.transcription) {
      out.push_back(std::move(finished));
      continue;
    }
    const double seconds = job.transcription->seconds();
    try {
      if (!finished.error) {
        job.transcription->take(finished.output);
        if (go_on(job)) continue;
        const Tokenizer* tokenizer = inner_.tokenizer();
        finished.output =
            job.transcription->result(tokenizer != nullptr ? *tokenizer : *own_tokenizer_);
        finished.seconds = seconds;
      }
    } catch (const InputError& error) {
      finished.error = error;
    }
    active_ -= seconds;
    done_ += seconds;
    out.push_back(std::move(finished));
  }
  return out;
}

Backend::AudioSeconds SpeechBackend::audio_seconds() const {
  AudioSeconds out{done_, total_};
  for (const auto& [number, job] : jobs_)
    if (job.transcription) out.done += job.transcription->seconds_done();
  return out;
}

}  // namespace tandem::launcher
