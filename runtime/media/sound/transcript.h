// What was said, as people and programs read it: text, subtitles, JSON as OpenAI's.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

enum class TranscriptFormat : uint8_t { kText, kSrt, kVtt, kTsv, kJson, kVerboseJson };

// "text", "srt", "vtt", "tsv", "json", "verbose_json"; nothing: another name.
std::optional<TranscriptFormat> transcript_format(std::string_view name);
// What a file of it is called behind the dot.
const char* extension_of(TranscriptFormat format);
// Whether it is made of segments, so that times are asked for.
inline bool needs_times(TranscriptFormat format) {
  return format != TranscriptFormat::kText && format != TranscriptFormat::kJson;
}

struct TranscriptFacts {
  double seconds = 0;  // of the sound
  std::string task = "transcribe";
  bool words = false;      // their times are part of verbose_json
  bool highlight = false;  // subtitles show each word while it is said, underlined
};
// By OpenAI's names, without an id; numbers that were not computed are not there.
nlohmann::ordered_json segment_to_json(const proto::SpeechSegment& segment);
// The same with all numbers, which OpenAI's clients rely on; those that were not computed are 0.
nlohmann::ordered_json whole_segment_to_json(const proto::SpeechSegment& segment);
// {"word", "start", "end", "probability"}
nlohmann::ordered_json word_to_json(const proto::SpeechWord& word);
// "german" of "<|de|>"; "unknown" of "".
std::string spoken_language_name(const std::string& token);

// Times for players and editors: none behind the end of the sound, where a model may hear something
// yet, and none before the text before it.
class OrderedTimes {
 public:
  // Of the sound; 0: not known.
  explicit OrderedTimes(double seconds)
      : seconds_(seconds > 0 ? seconds : std::numeric_limits<double>::infinity()) {}
  // In the order of the texts.
  void apply(proto::SpeechSegment& segment);

 private:
  double seconds_, last_ = 0;
};
// Of a transcription's result, with OrderedTimes; a newline at the end.
std::string write_transcript(TranscriptFormat format, proto::RequestOutput result,
                             const TranscriptFacts& facts);

}  // namespace tandem
