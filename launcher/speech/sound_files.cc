#include "launcher/speech/sound_files.h"

#include "base/check.h"
#include "runtime/media/media_source.h"

namespace tandem::launcher {
namespace {

constexpr const char* kField = "audio";
// Of files that were sent and not decoded yet; one is always sent.
constexpr uint64_t kMostBytesAhead = uint64_t{256} << 20;
constexpr size_t kMostFilesAhead = 64;

}  // namespace

std::optional<uint64_t> SoundFiles::next() const {
  if (waiting_.empty() || bytes_ahead_ >= kMostBytesAhead || files_ahead_ >= kMostFilesAhead)
    return std::nullopt;
  return waiting_.front().first;
}

EngineApi::Request SoundFiles::open(uint64_t number) {
  TANDEM_CHECK(!waiting_.empty() && waiting_.front().first == number);
  JsonRequest json = std::move(waiting_.front().second);
  waiting_.pop_front();
  Sound& sound = sounds_[number];
  sound.read = true;  // nothing is ahead of the engine so far
  EngineApi::Request request;
  request.sound = MediaSource::open(json.audio, kField);
  request.prompt = std::move(json.prompt);
  request.options = std::move(json.options);
  request.priority = json.priority;
  proto::PromptPart& part = *request.prompt.mutable_encoder();
  part.set_field(kField);
  part.mutable_sound();
  if (json.speech) *part.mutable_sound()->mutable_params() = *json.speech;
  sound.bytes = request.sound->size();
  sound.read = false;
  bytes_ahead_ += sound.bytes;
  ++files_ahead_;
  return request;
}

void SoundFiles::count_read(Sound& sound) {
  if (std::exchange(sound.read, true)) return;
  bytes_ahead_ -= sound.bytes;
  --files_ahead_;
}

void SoundFiles::note(uint64_t number, const proto::RequestChunk& chunk) {
  const auto it = sounds_.find(number);
  if (it == sounds_.end() || !chunk.has_progress()) return;
  it->second.seconds = {chunk.progress().seconds_done(), chunk.progress().seconds(), 0};
  count_read(it->second);
}

double SoundFiles::end(uint64_t number) {
  const auto node = sounds_.extract(number);
  if (node.empty()) return 0;
  count_read(node.mapped());
  done_ += node.mapped().seconds.total;
  num_ended_ += node.mapped().seconds.total > 0;
  return node.mapped().seconds.total;
}

AudioSeconds SoundFiles::seconds() const {
  AudioSeconds out{done_, done_, 0};
  size_t read = num_ended_, unread = waiting_.size();
  for (const auto& [number, sound] : sounds_) {
    out.done += sound.seconds.done;
    out.total += sound.seconds.total;
    (sound.seconds.total > 0 ? read : unread) += 1;
  }
  out.expected =
      read > 0 ? out.total * static_cast<double>(read + unread) / static_cast<double>(read) : 0;
  return out;
}

}  // namespace tandem::launcher
