// What came back for a window of sound, and whether it is good enough: HuggingFace's thresholds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/media/sound/transcription_params.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

struct WindowAnswer {
  std::vector<int32_t> tokens;        // with the end
  std::vector<double> probabilities;  // of the tokens, where they were asked for
  std::string finish_reason;
  double temperature = 0;
  double compression_ratio = 0;
  std::optional<double> avg_logprob, no_speech_prob;  // where they were asked for

  // Bytes of the tokens over what zlib makes of them.
  static double compression_of(std::span<const int32_t> tokens, int vocab_size);
};

enum class Verdict : uint8_t { kTake, kAgain, kSilence };  // kAgain: at the next temperature

Verdict judge(const WindowAnswer& answer, const TranscriptionParams& params);

}  // namespace tandem
