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

void SpeechBackend::send(Sent sent, JsonRequest request) {
  if (sink_ && !streams_) {
    inner_.stream_to([this](uint64_t number, const proto::RequestChunk& chunk) {
      const auto it = sent_.find(number);
      if (it != sent_.end() && it->second.window < 0) sink_(it->second.number, chunk);
    });
    streams_ = true;
  }
  const uint64_t number = next_++;
  sent_.emplace(number, sent);
  try {
    inner_.submit(number, std::move(request));
  } catch (...) {
    sent_.erase(number);
    throw;
  }
}

void SpeechBackend::submit(uint64_t number, JsonRequest request) {
  if (request.audio.empty()) return send({number}, std::move(request));
  load();
  waiting_.emplace_back(number, std::move(request));
}

// Opens the file, and sends the first requests of its transcription, or the only one of a decoder
// prompt that was given.
void SpeechBackend::begin(uint64_t number, JsonRequest request) {
  AudioFile file = AudioFile::open(request.audio, kField, settings_->mel.sampling_rate);
  if (!request.speech) {
    const LogMel mel = read_log_mel(file, settings_->mel);
    if (mel.frames > settings_->window_frames)
      throw InputError(ErrorKind::kResource,
                       "audio: is longer than a window of " +
                           std::to_string(settings_->mel.chunk_length) +
                           " seconds; without a decoder prompt of its own it is transcribed window "
                           "by window",
                       kField);
    *request.prompt.mutable_encoder()->mutable_frames() = window_of(mel, *settings_, 0);
    return send({number}, std::move(request));
  }
  const Tokenizer* tokenizer = inner_.tokenizer();
  auto transcription = std::make_unique<Transcription>(
      settings_, read_speech(file, settings_->mel, *request.speech), *request.speech,
      std::move(request.options), tokenizer != nullptr ? *tokenizer : *own_tokenizer_);
  total_ += transcription->seconds();
  active_ += transcription->seconds();
  jobs_[number] = std::move(transcription);
  try {
    go_on(number);
  } catch (...) {
    end(number);
    throw;
  }
}

// Sends all that can be sent.
void SpeechBackend::go_on(uint64_t number) {
  for (Transcription::Request& next : jobs_.at(number)->next()) {
    JsonRequest request;
    request.prompt = std::move(next.prompt);
    request.options = std::move(next.options);
    send({number, next.number}, std::move(request));
  }
}

// Answers that are still to come find nothing.
void SpeechBackend::end(uint64_t number) {
  const auto node = jobs_.extract(number);
  active_ -= node.mapped()->seconds();
  done_ += node.mapped()->seconds();
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

// An answer to a transcription. Returns whether that has ended, with `finished` as its result.
bool SpeechBackend::take(const Sent& sent, Finished& finished) {
  const auto job = jobs_.find(sent.number);
  if (job == jobs_.end()) return false;  // another window was wrong
  finished.number = sent.number;
  try {
    if (!finished.error) {
      Transcription& transcription = *job->second;
      transcription.take(sent.window, finished.output);
      if (!transcription.done()) {
        go_on(sent.number);
        return false;
      }
      finished.output = transcription.result();
      finished.seconds = transcription.seconds();
    }
  } catch (const InputError& error) {
    finished.error = error;
  }
  end(sent.number);
  return true;
}

std::vector<Backend::Finished> SpeechBackend::poll() {
  std::vector<Finished> out;
  start(out);
  if (sent_.empty()) return out;
  for (Finished& finished : inner_.poll()) {
    const Sent sent = sent_.extract(finished.number).mapped();
    finished.number = sent.number;
    if (sent.window < 0 || take(sent, finished)) out.push_back(std::move(finished));
  }
  return out;
}

Backend::AudioSeconds SpeechBackend::audio_seconds() const {
  AudioSeconds out{done_, total_};
  for (const auto& [number, transcription] : jobs_) out.done += transcription->seconds_done();
  return out;
}

}  // namespace tandem::launcher
