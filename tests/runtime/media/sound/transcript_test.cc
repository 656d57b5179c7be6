// Text, subtitles and JSON of a transcription.
#include "runtime/media/sound/transcript.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json.h"
#include "text/language_names.h"

namespace tandem {
namespace {

proto::RequestOutput result(bool times) {
  proto::RequestOutput out;
  out.set_language("<|de|>");
  auto& answer = *out.add_outputs();
  answer.set_text(" Guten Tag. A-->B\n ");
  if (!times) return out;
  const auto add = [&](double start, double end, const char* text) {
    auto& segment = *answer.add_segments();
    segment.set_start(start);
    segment.set_end(end);
    segment.set_text(text);
  };
  add(0, 1.5, " Guten Tag.");
  add(2, 3, "  ");
  add(3723.0464, 3800, " A-->B\n\nC");
  return out;
}

std::string written(const char* format, bool times) {
  return write_transcript(*transcript_format(format), result(times), {3800.25, "transcribe"});
}

TEST(Transcript, Text) {
  EXPECT_EQ(written("text", false), "Guten Tag. A-->B\n");
  EXPECT_EQ(written("text", true).substr(0, 42), "[00:00:00.000 --> 00:00:01.500] Guten Tag.");
}

TEST(Transcript, Subtitles) {
  EXPECT_EQ(written("srt", true),
            "1\n00:00:00,000 --> 00:00:01,500\nGuten Tag.\n\n"
            "2\n01:02:03,046 --> 01:03:20,000\nA->B  C\n\n");
  EXPECT_EQ(written("vtt", true),
            "WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nGuten Tag.\n\n"
            "01:02:03.046 --> 01:03:20.000\nA->B  C\n\n");
}

TEST(Transcript, Table) {
  EXPECT_EQ(written("tsv", true),
            "start\tend\ttext\n0\t1500\tGuten Tag.\n2000\t3000\t\n"
            "3723046\t3800000\tA-->B  C\n");
}

TEST(Transcript, Json) {
  EXPECT_EQ(written("json", true), "{\"text\":\"Guten Tag. A-->B\"}\n");
  const auto verbose = json_from<nlohmann::json>(written("verbose_json", true));
  EXPECT_EQ(verbose["language"], "german");
  EXPECT_EQ(verbose["duration"], 3800.25);
  EXPECT_EQ(verbose["segments"].size(), 3U);
  EXPECT_EQ(verbose["segments"][2]["id"], 2);
  EXPECT_EQ(verbose["segments"][0]["end"], 1.5);
  for (const char* number : {"avg_logprob", "compression_ratio", "no_speech_prob"})
    EXPECT_EQ(verbose["segments"][0][number], 0) << "OpenAI's clients expect all of them";
  EXPECT_FALSE(segment_to_json({}).contains("avg_logprob"));
  proto::SpeechSegment segment;
  segment.set_seek(1500);
  segment.set_temperature(0.5);
  segment.set_avg_logprob(-0.75);
  segment.set_compression_ratio(1.5);
  segment.set_no_speech_prob(0.25);
  EXPECT_EQ(segment_to_json(segment).dump(),
            "{\"seek\":1500,\"start\":0.0,\"end\":0.0,\"text\":\"\",\"tokens\":[],"
            "\"temperature\":0.5,\"avg_logprob\":-0.75,\"compression_ratio\":1.5,"
            "\"no_speech_prob\":0.25}");
}

TEST(Transcript, TimesAreInOrderAndWithinTheSound) {
  OrderedTimes times(10.5);
  const std::tuple<double, double, double, double> cases[] = {
      {0, 2, 0, 2}, {1.5, 3, 2, 3}, {4, 3.5, 4, 4}, {9, 12, 9, 10.5}, {29.98, 31, 10.5, 10.5}};
  for (const auto& [start, end, wanted_start, wanted_end] : cases) {
    proto::SpeechSegment segment;
    segment.set_start(start);
    segment.set_end(end);
    times.apply(segment);
    EXPECT_EQ(segment.start(), wanted_start);
    EXPECT_EQ(segment.end(), wanted_end);
  }
  proto::SpeechSegment late;
  late.set_end(99);
  OrderedTimes(0).apply(late);
  EXPECT_EQ(late.end(), 99) << "the end is not known";
}

TEST(LanguageNames, BothWays) {
  EXPECT_EQ(language_code("German"), "de");
  EXPECT_EQ(language_code("de"), "de");
  EXPECT_EQ(language_code("castilian"), "es");
  EXPECT_EQ(language_name("es"), "spanish");
  EXPECT_EQ(language_code("klingon"), "");
  EXPECT_EQ(language_name("xx"), "xx");
}

}  // namespace
}  // namespace tandem
