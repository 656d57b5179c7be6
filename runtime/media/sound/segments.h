// The tokens of a window of sound → what was said when, and where the next window begins.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// Where a window lies in the sound, in frames 10 ms apart.
struct SpeechWindow {
  int64_t begin = 0;
  int64_t frames = 0;  // of sound; the encoder may get silence behind them
};

struct WindowSegments {
  std::vector<proto::SpeechSegment> segments;  // times and tokens; no text
  int64_t frames = 0;                          // from the window's begin to the next one's
};

// HuggingFace's _retrieve_segment(). Ids from first_timestamp on are times, 20 ms apart, from the
// window's begin. A pair of times ends a segment and begins the next. The next window begins behind
// the last pair, unless the tokens end with a single time: then nothing is said behind it. Without
// a pair all tokens are one segment.
WindowSegments split_segments(std::span<const int32_t> tokens, int32_t first_timestamp,
                              const SpeechWindow& window, int64_t frames_per_position);

}  // namespace tandem
