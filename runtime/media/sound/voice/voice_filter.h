// Sound → its parts that are speech, one behind the other, and where they were: faster-whisper's
// vad_filter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "runtime/media/sound/voice/speech_finder.h"
#include "runtime/media/sound/voice/voice_network.h"

namespace tandem {

// Samples come in, those of speech go out. It keeps what is not decided: the silence that may
// belong to speech. Used by one thread.
class VoiceFilter {
 public:
  using Sink = std::function<void(std::span<const float>)>;
  // `speech` gets samples in order, of all spans together.
  VoiceFilter(std::shared_ptr<const VoiceWeights> weights, const VoiceOptions& options,
              Sink speech);

  // At VoiceNetwork::kRate.
  void add(std::span<const float> samples);
  // Returns where the spans were. Their samples have all gone out.
  std::vector<SpeechSpan> finish();

  size_t kept() const { return buffer_.size(); }  // samples

 private:
  void hear(std::span<const float> windows);
  void give(int64_t begin, int64_t end);
  void give_spans();

  VoiceNetwork network_;
  SpeechFinder finder_;
  Sink speech_;
  std::vector<float> buffer_;  // samples from first_ on
  int64_t first_ = 0;
  int64_t heard_ = 0;  // samples that the network has had
  int64_t given_ = 0;  // behind the last sample that has gone out
  std::vector<SpeechSpan> spans_;
};

// Times in the speech → times in the sound that it was cut out of. faster-whisper's
// SpeechTimestampsMap, without its rounding.
class SpeechClock {
 public:
  SpeechClock(const std::vector<SpeechSpan>& spans, int rate);
  // Without spans times stay as they are.
  bool empty() const { return ends_.empty(); }
  // Of the speech.
  double seconds() const { return ends_.empty() ? 0 : static_cast<double>(ends_.back()) / rate_; }
  double begin(double time) const { return time + silence_before(time, false); }
  // An end that is the end of a span stays there, and does not go to the next one.
  double end(double time) const { return time + silence_before(time, true); }
  // Both of a word, whose middle says which span it belongs to.
  std::pair<double, double> word(double begin, double end) const;

 private:
  double silence_before(double time, bool is_end) const;

  int rate_;
  std::vector<int64_t> ends_;    // of spans, in samples of the speech
  std::vector<double> silence_;  // seconds before each
};

}  // namespace tandem
