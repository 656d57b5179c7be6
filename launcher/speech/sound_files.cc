#include "launcher/speech/sound_files.h"

#include "runtime/media/media_source.h"
#include "runtime/protocol/prompt_reader.h"

namespace tandem::launcher {
namespace {

constexpr const char* kField = "audio";
// Of files that were sent and not decoded yet; one is always sent.
constexpr uint64_t kMostBytesAhead = uint64_t{256} << 20;

}  // namespace

// From the first request on whose progress is asked for.
void SoundFiles::listen() {
  if (listens_) return;
  listens_ = true;
  inner_.stream_to([this](uint64_t number, const proto::RequestChunk& chunk) {
    note(number, chunk);
    if (sink_) sink_(number, chunk);
  });
}

void SoundFiles::submit(uint64_t number, JsonRequest request) {
  if (sink_ || !request.audio.empty()) listen();
  if (request.audio.empty()) return inner_.submit(number, std::move(request));
  waiting_.emplace_back(number, std::move(request));
}

void SoundFiles::send(uint64_t number, JsonRequest request) {
  proto::PromptPart& part = *request.prompt.mutable_encoder();
  part.set_field(kField);
  proto::Sound& sound = *part.mutable_sound();
  if (request.speech) *sound.mutable_params() = *request.speech;
  Sound& counted = sounds_[number];
  try {
    if (!inner_.opens_files()) {
      sound.set_file(MediaSource::open(request.audio, kField).bytes(kField, kMaxSoundBytes));
      request.audio.clear();
      counted.bytes = sound.file().size();
      bytes_ += counted.bytes;
    }
    inner_.submit(number, std::move(request));
  } catch (...) {
    end(number);
    throw;
  }
}

void SoundFiles::start(std::vector<Finished>& out) {
  while (!waiting_.empty() && inner_.takes_sound() && bytes_ < kMostBytesAhead) {
    auto [number, request] = std::move(waiting_.front());
    waiting_.pop_front();
    try {
      send(number, std::move(request));
    } catch (const InputError& error) {
      out.push_back({number, {}, error, 0});
    }
  }
}

void SoundFiles::note(uint64_t number, const proto::RequestChunk& chunk) {
  const auto it = sounds_.find(number);
  if (it == sounds_.end() || !chunk.has_progress()) return;
  it->second.seconds = {chunk.progress().seconds_done(), chunk.progress().seconds()};
  bytes_ -= std::exchange(it->second.bytes, 0);
}

double SoundFiles::end(uint64_t number) {
  const auto node = sounds_.extract(number);
  if (node.empty()) return 0;
  bytes_ -= node.mapped().bytes;
  done_ += node.mapped().seconds.total;
  return node.mapped().seconds.total;
}

std::vector<Backend::Finished> SoundFiles::poll() {
  std::vector<Finished> out;
  start(out);
  if (!out.empty()) return out;  // before what waits
  out = inner_.poll();
  for (Finished& finished : out) finished.seconds = end(finished.number);
  return out;
}

Backend::AudioSeconds SoundFiles::audio_seconds() const {
  AudioSeconds out{done_, done_};
  for (const auto& [number, sound] : sounds_) {
    out.done += sound.seconds.done;
    out.total += sound.seconds.total;
  }
  return out;
}

}  // namespace tandem::launcher
