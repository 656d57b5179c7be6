// What was said, as people and programs read it: text, subtitles, JSON as OpenAI's.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

enum class TranscriptFormat : uint8_t { kText, kSrt, kVtt, kJson, kVerboseJson };

// "text", "srt", "vtt", "json", "verbose_json"; nothing: another name.
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
};
// By OpenAI's names, without an id; numbers that were not computed are not there.
nlohmann::ordered_json segment_to_json(const proto::SpeechSegment& segment);
// Of a transcription's result; with a newline at the end.
std::string write_transcript(TranscriptFormat format, const proto::RequestOutput& result,
                             const TranscriptFacts& facts);

}  // namespace tandem
