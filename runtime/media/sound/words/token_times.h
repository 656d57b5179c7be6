// Tokens with their places in the sound, and what becomes of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/protocol/tandem.pb.h"
#include "text/tokenizer.h"

namespace tandem {

// A token that was said from `begin` to `end`: seconds of the sound. What lies between tokens is
// the later one's.
struct SpokenToken {
  int32_t id = 0;
  double begin = 0, end = 0;
  double probability = 0;
};

// Python's round(x, 2).
double hundredths(double x);

// Adds the words of the segment's tokens, without those of times and others that are no text, and
// when each token ends. language: as for group_words(); first_timestamp: ids from there on are
// times.
void add_words(std::span<const SpokenToken> tokens, const Tokenizer& tokenizer,
               std::string_view language, int32_t first_timestamp, proto::SpeechSegment& segment);

}  // namespace tandem
