#include "runtime/media/sound/transcript.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"
#include "text/language_names.h"

namespace tandem {
namespace {

using nlohmann::ordered_json;

constexpr std::array<std::pair<std::string_view, TranscriptFormat>, 6> kFormats = {
    {{"text", TranscriptFormat::kText},
     {"srt", TranscriptFormat::kSrt},
     {"vtt", TranscriptFormat::kVtt},
     {"tsv", TranscriptFormat::kTsv},
     {"json", TranscriptFormat::kJson},
     {"verbose_json", TranscriptFormat::kVerboseJson}}};

std::string trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

// A cue ends at an empty line, and begins behind "-->": neither may be in its text.
std::string cue_text(const std::string& text) {
  std::string out;
  for (const char c : trimmed(text)) out += c == '\n' || c == '\r' ? ' ' : c;
  for (size_t at = out.find("-->"); at != std::string::npos; at = out.find("-->", at))
    out.erase(at, 1);
  return out;
}

std::string clock(double seconds, char point) {
  const int64_t ms = std::max<int64_t>(std::llround(seconds * 1000), 0);
  char text[40];
  std::snprintf(text, sizeof(text), "%02lld:%02lld:%02lld%c%03lld",
                static_cast<long long>(ms / 3600000), static_cast<long long>(ms / 60000 % 60),
                static_cast<long long>(ms / 1000 % 60), point, static_cast<long long>(ms % 1000));
  return text;
}

// The cues of subtitles, one after the other.
class Cues {
 public:
  Cues(bool numbered, char point) : numbered_(numbered), point_(point) {}

  void add(double start, double end, const std::string& text) {
    const std::string line = cue_text(text);
    if (line.empty()) return;
    if (numbered_) text_ += std::to_string(++number_) + "\n";
    text_ += clock(start, point_) + " --> " + clock(end, point_) + "\n" + line + "\n\n";
  }
  // The segment's text again and again, each word underlined while it is said.
  void add_highlighted(const proto::SpeechSegment& segment) {
    double shown = segment.start();
    const auto until = [&](double time) {
      if (time > shown) add(shown, time, segment.text());
      shown = std::max(shown, time);
    };
    for (int i = 0; i < segment.words_size(); ++i) {
      until(segment.words(i).start());
      const double end = segment.words(i).end();
      if (end <= shown) continue;
      add(shown, end, underlined(segment, i));
      shown = end;
    }
    until(segment.end());
  }
  std::string take() { return std::move(text_); }

 private:
  static std::string underlined(const proto::SpeechSegment& segment, int place) {
    std::string out;
    for (int i = 0; i < segment.words_size(); ++i) {
      const std::string& word = segment.words(i).word();
      const size_t begin = word.find_first_not_of(' ');
      if (i != place || begin == std::string::npos)
        out += word;
      else
        out += word.substr(0, begin) + "<u>" + word.substr(begin) + "</u>";
    }
    return out;
  }

  bool numbered_;
  char point_;
  int number_ = 0;
  std::string text_;
};

std::string cues(const proto::CompletionOutput& answer, bool highlight, bool numbered, char point) {
  Cues out(numbered, point);
  for (const auto& segment : answer.segments()) {
    if (highlight && !segment.words().empty())
      out.add_highlighted(segment);
    else
      out.add(segment.start(), segment.end(), segment.text());
  }
  return out.take();
}

std::string lines(const proto::CompletionOutput& answer) {
  std::string out;
  for (const auto& segment : answer.segments()) {
    out += '[';
    out += clock(segment.start(), '.') + " --> " + clock(segment.end(), '.') + "] ";
    out += trimmed(segment.text()) + "\n";
  }
  return out;
}

// As openai-whisper's: milliseconds, and a text without tabs.
std::string table(const proto::CompletionOutput& answer) {
  std::string out = "start\tend\ttext\n";
  for (const auto& segment : answer.segments()) {
    std::string text = trimmed(segment.text());
    for (char& c : text)
      if (c == '\t' || c == '\n' || c == '\r') c = ' ';
    out += std::to_string(std::llround(segment.start() * 1000)) + "\t" +
           std::to_string(std::llround(segment.end() * 1000)) + "\t" + text + "\n";
  }
  return out;
}

ordered_json verbose(const proto::RequestOutput& result, const TranscriptFacts& facts) {
  const auto& answer = result.outputs(0);
  ordered_json segments = ordered_json::array();
  for (const auto& segment : answer.segments()) {
    segments.push_back({{"id", segments.size()}});
    segments.back().update(whole_segment_to_json(segment));
  }
  ordered_json out = {{"task", facts.task},
                      {"language", spoken_language_name(result.language())},
                      {"duration", facts.seconds},
                      {"text", trimmed(answer.text())},
                      {"segments", std::move(segments)}};
  if (facts.words) {
    out["words"] = ordered_json::array();
    for (const auto& segment : answer.segments())
      for (const auto& word : segment.words()) out["words"].push_back(word_to_json(word));
  }
  if (result.warnings_size() > 0) out["warnings"] = result.warnings();
  return out;
}

std::string line_of(const ordered_json& value) { return dump_ordered_line(value) + "\n"; }

}  // namespace

ordered_json segment_to_json(const proto::SpeechSegment& segment) {
  ordered_json out = {{"seek", segment.seek()},        {"start", segment.start()},
                      {"end", segment.end()},          {"text", segment.text()},
                      {"tokens", segment.token_ids()}, {"temperature", segment.temperature()}};
  if (segment.has_avg_logprob() && std::isfinite(segment.avg_logprob()))
    out["avg_logprob"] = segment.avg_logprob();
  if (segment.has_compression_ratio()) out["compression_ratio"] = segment.compression_ratio();
  if (segment.has_no_speech_prob()) out["no_speech_prob"] = segment.no_speech_prob();
  return out;
}

ordered_json whole_segment_to_json(const proto::SpeechSegment& segment) {
  ordered_json out = segment_to_json(segment);
  for (const char* number : {"avg_logprob", "compression_ratio", "no_speech_prob"})
    if (!out.contains(number)) out[number] = 0.0;
  return out;
}

ordered_json word_to_json(const proto::SpeechWord& word) {
  return {{"word", word.word()},
          {"start", word.start()},
          {"end", word.end()},
          {"probability", word.probability()}};
}

std::string spoken_language_name(const std::string& token) {
  const std::string code = language_code_of_token(token);
  return code.empty() ? "unknown" : language_name(code);
}

void OrderedTimes::apply(proto::SpeechSegment& segment) {
  const auto put = [&](double time) { return last_ = std::clamp(time, last_, seconds_); };
  segment.set_start(put(segment.start()));
  for (proto::SpeechWord& word : *segment.mutable_words()) {
    word.set_start(put(word.start()));
    word.set_end(put(word.end()));
  }
  segment.set_end(put(segment.end()));
}

std::optional<TranscriptFormat> transcript_format(std::string_view name) {
  for (const auto& [known, format] : kFormats)
    if (known == name) return format;
  return std::nullopt;
}

const char* extension_of(TranscriptFormat format) {
  switch (format) {
    case TranscriptFormat::kText: return "txt";
    case TranscriptFormat::kSrt: return "srt";
    case TranscriptFormat::kVtt: return "vtt";
    case TranscriptFormat::kTsv: return "tsv";
    default: return "json";
  }
}

std::string write_transcript(TranscriptFormat format, proto::RequestOutput result,
                             const TranscriptFacts& facts) {
  OrderedTimes times(facts.seconds);
  for (proto::SpeechSegment& segment : *result.mutable_outputs(0)->mutable_segments())
    times.apply(segment);
  const auto& answer = result.outputs(0);
  switch (format) {
    case TranscriptFormat::kText:
      return answer.segments().empty() ? trimmed(answer.text()) + "\n" : lines(answer);
    case TranscriptFormat::kSrt: return cues(answer, facts.highlight, /*numbered=*/true, ',');
    case TranscriptFormat::kVtt:
      return "WEBVTT\n\n" + cues(answer, facts.highlight, /*numbered=*/false, '.');
    case TranscriptFormat::kTsv: return table(answer);
    case TranscriptFormat::kJson: return line_of({{"text", trimmed(answer.text())}});
    case TranscriptFormat::kVerboseJson: return line_of(verbose(result, facts));
  }
  return {};
}

}  // namespace tandem
