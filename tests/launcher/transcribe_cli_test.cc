// tandem transcribe as its users meet it: fallback, silence, chunks.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/media/sound/live/live_formats.h"
#include "tests/support/files/files.h"
#include "tests/support/files/json_lines.h"
#include "tests/support/goldens/random_speech.h"
#include "tests/support/processes/command_line.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::ProcessResult;
using testing::RandomSpeech;

class TranscribeCli : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_.write("a.wav", RandomSpeech::sound(3.4, 1));
    dir_.write("b.wav", RandomSpeech::sound(0.7, 2));
  }

  ProcessResult run(std::vector<std::string> flags) const {
    std::vector<std::string> all{"transcribe",   "--model",    model_.path().string(),
                                 "--dtype",      "float32",    "--format",
                                 "verbose_json", "--language", "en"};
    all.insert(all.end(), flags.begin(), flags.end());
    all.push_back((dir_.path() / "a.wav").string());
    all.push_back((dir_.path() / "b.wav").string());
    return testing::tandem(all);
  }
  // Of both files.
  std::vector<json> answers(const std::vector<std::string>& flags) const {
    const ProcessResult r = run(flags);
    EXPECT_EQ(r.status, 0) << r.err;
    std::vector<json> out = test::json_lines(r.out);
    EXPECT_EQ(out.size(), 2U);
    return out;
  }

  RandomSpeech model_;
  test::TempDir dir_;
};

TEST_F(TranscribeCli, Fallback) {
  const auto plain = answers({});
  // All good enough; none is, and the last one counts.
  EXPECT_EQ(answers({"--temperature-fallback", "0,0.5", "--logprob-threshold", "-1000"}), plain);
  for (const json& answer :
       answers({"--temperature-fallback", "0,0.2,0.5", "--compression-ratio-threshold", "0.001"})) {
    ASSERT_FALSE(answer["segments"].empty());
    for (const json& segment : answer["segments"]) {
      EXPECT_EQ(segment["temperature"], 0.5);
      EXPECT_LE(segment["avg_logprob"], 0);
      EXPECT_GT(segment["compression_ratio"], 0);
    }
  }
}

// It is not passed over.
TEST_F(TranscribeCli, AnAdapterThatThereIsNotIsAnError) {
  const ProcessResult r = run({"--lora", "nobody"});
  EXPECT_NE(r.status, 0);
  EXPECT_NE(r.err.find("\"nobody\""), std::string::npos) << r.err;
}

TEST_F(TranscribeCli, Silence) {
  for (const json& answer : answers({"--logprob-threshold", "1", "--no-speech-threshold", "0"})) {
    EXPECT_TRUE(answer["segments"].empty());
    EXPECT_EQ(answer["text"], "");
  }
  for (const json& answer : answers({"--logprob-threshold", "1", "--no-speech-threshold", "1"}))
    for (const json& segment : answer["segments"]) {
      EXPECT_GT(segment["no_speech_prob"], 0);
      EXPECT_LT(segment["no_speech_prob"], 1);
    }
}

TEST_F(TranscribeCli, Chunks) {
  const auto cut = answers({"--chunk-length-s", "1", "--stride-length-s", "0.2,0.1"});
  EXPECT_FALSE(cut[0]["text"].get<std::string>().empty());
  EXPECT_NEAR(cut[0]["duration"].get<double>(), 3.4, 1e-6);
  // A sound of one chunk is as it is whole, but for the times of a text without an end.
  EXPECT_EQ(answers({"--chunk-length-s", "1"})[1]["text"], answers({})[1]["text"]);
}

TEST_F(TranscribeCli, PartsOfASound) {
  const auto parts = answers({"--clip-timestamps", "0.5,0.6,2"});
  for (const json& segment : parts[0]["segments"]) {
    const int64_t window = segment["seek"];  // where it begins
    EXPECT_TRUE((window >= 50 && window < 60) || window >= 200) << segment;
  }
  for (const json& segment : parts[1]["segments"]) EXPECT_LT(segment["seek"], 60);  // of 0.7 s
  EXPECT_EQ(answers({"--clip-timestamps", "0"}), answers({}));
  const auto nothing = answers({"--clip-timestamps", "100"});
  EXPECT_EQ(nothing[0]["text"], "");
  EXPECT_TRUE(nothing[0]["segments"].empty());
  EXPECT_EQ(answers({"--multilingual"})[0]["language"], answers({})[0]["language"]);
}

TEST_F(TranscribeCli, TheTaskIsOneOfTwo) {
  for (const char* task : {"transcribe", "translate"})
    for (const json& answer : answers({"--task", task})) EXPECT_EQ(answer["task"], task);
  const ProcessResult r = run({"--task", "summarize"});
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.err.find("--task: must be transcribe or translate"), std::string::npos) << r.err;
}

TEST_F(TranscribeCli, WritesToAFolderWhoseNamesDoNotCollide) {
  std::filesystem::create_directories(dir_.path() / "below");
  std::filesystem::copy_file(dir_.path() / "b.wav", dir_.path() / "below" / "a.wav");
  const std::string out = (dir_.path() / "new" / "folder").string();
  const ProcessResult r = run({"--output-dir", out, (dir_.path() / "below" / "a.wav").string()});
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_EQ(r.out, "");
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(out))
    names.push_back(file.path().filename().string());
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"a-2.wav.json", "a.wav.json", "b.wav.json"}));
  EXPECT_NE(r.err.find("a-2.wav.json"), std::string::npos) << r.err;
  // The command line's order: that of below/ came first.
  EXPECT_EQ(test::read_file(out + "/a.wav.json"), test::read_file(out + "/b.wav.json"));
  // Before the model is loaded.
  const ProcessResult nowhere = testing::tandem(
      {"transcribe", "/no/such/model", (dir_.path() / "a.wav").string(), "--output-dir", "/proc"});
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_NE(nowhere.err.find("--output-dir"), std::string::npos) << nowhere.err;
}

// "-" is standard input, once.
TEST_F(TranscribeCli, ReadsStandardInput) {
  const std::vector<std::string> command{
      "transcribe", model_.path().string(), "--dtype",    "float32",
      "--format",   "verbose_json",         "--language", "en"};
  const auto with = [&](std::vector<std::string> files, const std::string& input) {
    files.insert(files.begin(), command.begin(), command.end());
    return testing::tandem(files, input);
  };
  const std::string sound = test::read_file(dir_.path() / "a.wav");
  const std::string a = (dir_.path() / "a.wav").string(), b = (dir_.path() / "b.wav").string();
  const ProcessResult files = with({a, b}, ""), piped = with({"-", b}, sound);
  EXPECT_EQ(piped.status, 0) << piped.err;
  EXPECT_FALSE(files.out.empty());
  EXPECT_EQ(piped.out, files.out);

  for (const std::string& wrong : {std::string(), std::string("no sound"), sound.substr(0, 20)}) {
    const ProcessResult r = with({"-"}, wrong);
    EXPECT_EQ(r.status, 1) << wrong.size();
    EXPECT_EQ(r.out, "");
    EXPECT_NE(r.err.find("-: "), std::string::npos) << r.err;
  }
  const ProcessResult twice = with({"-", "-"}, sound);
  EXPECT_EQ(twice.status, 2) << twice.err;
  EXPECT_NE(twice.err.find("standard input"), std::string::npos) << twice.err;
}

TEST_F(TranscribeCli, WhatIsWrongIsNamed) {
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"--chunk-length-s", "1", "--stride-length-s", "a"}, "stride_length_s"},
      {{"--chunk-length-s", "31"}, "chunk_length_s"},
      {{"--no-speech-threshold", "0.6"}, "logprob_threshold"},
      {{"--temperature-fallback", "0,warm"}, "temperature"},
      {{"--clip-timestamps", "3,1"}, "clip_timestamps"},
      {{"--language-detection-segments", "0.5"}, "language_detection_segments"},
      {{"--hallucination-silence-threshold", "1"}, "hallucination_silence_threshold"},
      {{"--prefix", "a <|endoftext|>"}, "prefix"},
      {{"--prompt", "a <|endoftext|>"}, "prompt"},
  };
  for (const auto& [flags, name] : wrong) {
    const ProcessResult r = run(flags);
    EXPECT_EQ(r.status, 1) << name;
    EXPECT_NE(r.err.find(name), std::string::npos) << r.err;
  }
}

// A folder has its files of sound, a pattern those that match.
TEST_F(TranscribeCli, FoldersAndPatterns) {
  dir_.write("notes.txt", "no sound");
  const std::string folder = dir_.path().string(), out = folder + "/out";
  const auto transcribe = [&](const std::vector<std::string>& arguments) {
    std::vector<std::string> all{"transcribe", model_.path().string(), "--dtype", "float32"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return testing::tandem(all);
  };
  const ProcessResult whole = transcribe({folder, "--output-dir", out});
  EXPECT_EQ(whole.status, 0) << whole.err;
  EXPECT_TRUE(std::filesystem::exists(out + "/a.wav.txt"));
  EXPECT_TRUE(std::filesystem::exists(out + "/b.wav.txt"));
  EXPECT_FALSE(std::filesystem::exists(out + "/notes.txt.txt"));
  const ProcessResult some = transcribe({folder + "/b*.wav"});
  EXPECT_EQ(some.status, 0) << some.err;
  EXPECT_EQ(some.out, transcribe({folder + "/b.wav"}).out);
  for (const std::string& nothing : {folder + "/*.mp3", out}) {
    const ProcessResult r = transcribe({nothing});
    EXPECT_EQ(r.status, 2);
    EXPECT_NE(r.err.find("FILE: "), std::string::npos) << r.err;
  }
}

// Raw samples, and a WAV file of them, from standard input. What is settled when depends on the
// machine, but it is never taken back.
TEST_F(TranscribeCli, Live) {
  std::vector<int16_t> samples(16000);
  for (size_t i = 0; i < 40000; ++i)
    samples.push_back(static_cast<int16_t>((i / 50 % 2 == 0 ? 1 : -1) * (3000 + i % 977)));
  samples.resize(samples.size() + 16000);
  const std::string file = wav_file(samples, 16000), raw = file.substr(44);
  const auto live = [&](const std::string& input, const std::vector<std::string>& flags) {
    std::vector<std::string> all{
        "transcribe", model_.path().string(), "--dtype", "float32", "--language", "en", "--live"};
    all.insert(all.end(), flags.begin(), flags.end());
    return testing::tandem(all, input);
  };
  for (const std::string& input : {file, raw}) {
    const ProcessResult r =
        live(input, {"--format", "json", "--vad-min-silence-duration-ms", "300"});
    EXPECT_EQ(r.status, 0) << r.err;
    const std::vector<json> events = test::json_lines(r.out);
    ASSERT_GE(events.size(), 4U) << r.out;
    EXPECT_EQ(events.front()["type"], "speech_started");
    EXPECT_EQ(events.back()["type"], "completed");
    EXPECT_NEAR(events.back()["seconds"].get<double>(), 3.1, 0.2);
    std::string said;
    for (const json& event : events)
      if (event["type"] == "delta") said += event["delta"].get<std::string>();
    EXPECT_EQ(events.back()["transcript"], said);
    EXPECT_NE(said, "");
  }
  const ProcessResult text = live(raw, {});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 1) << text.out;
  EXPECT_EQ(live("", {}).out, "");
  for (const auto& [flag, name] : {std::pair("--timestamps", "--timestamps"), {"a.wav", "FILE"}}) {
    const ProcessResult wrong = live(raw, {flag});
    EXPECT_EQ(wrong.status, 2);
    EXPECT_NE(wrong.err.find(name), std::string::npos) << wrong.err;
  }
}

// Heard as samples it would be noise, of which a model makes words.
TEST_F(TranscribeCli, LiveRefusesFilesThatAreNoSamples) {
  for (const auto& [begin, kind] : {std::pair(std::string("\0\0\0\x1c"
                                                          "ftypM4A ",
                                                          12),
                                              "an MP4 or M4A file"),
                                    {"ID3\4" + std::string(8, '\0'), "an MP3 file"},
                                    {"OggS" + std::string(8, '\0'), "an Ogg file"}}) {
    const ProcessResult r = testing::tandem({"transcribe", model_.path().string(), "--live"},
                                            begin + std::string(64000, 'x'));
    EXPECT_EQ(r.status, 2);
    EXPECT_EQ(r.out, "");
    EXPECT_NE(r.err.find(kind), std::string::npos) << r.err;
    EXPECT_NE(r.err.find("leave out --live"), std::string::npos) << r.err;
  }
}

TEST_F(TranscribeCli, NamesOfOtherPrograms) {
  for (const auto& [name, id] :
       {std::pair("small", "openai/whisper-small"), {"turbo", "openai/whisper-large-v3-turbo"}}) {
    const ProcessResult r = testing::tandem({"transcribe", name, (dir_.path() / "a.wav").string()});
    EXPECT_EQ(r.status, 2);
    EXPECT_NE(r.err.find(id), std::string::npos) << r.err;
  }
}

}  // namespace
}  // namespace tandem
