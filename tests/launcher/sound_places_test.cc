// tandem transcribe, and sound in JSONL: alike in this process, in a cluster of the command's own
// and at a server.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/json.h"
#include "tests/support/goldens/random_speech.h"
#include "tests/support/processes/command_line.h"
#include "tests/support/processes/server.h"

namespace tandem {
namespace {

using nlohmann::json;
using testing::ProcessResult;
using testing::RandomSpeech;
using testing::tandem;
using Words = std::vector<std::string>;

class SoundPlaces : public ::testing::Test {
 protected:
  SoundPlaces() {
    for (int i = 0; i < 5; ++i) {
      const std::string name = "sound" + std::to_string(i) + ".wav";
      dir_.write(name, RandomSpeech::sound(0.4 + 2.3 * i, static_cast<unsigned>(i)));
      files_.push_back((dir_ / name).string());
    }
  }
  static const RandomSpeech& model() {
    static const RandomSpeech model;
    return model;
  }
  static void SetUpTestSuite() { server_ = new test::Server({}, {}, true, model().path()); }
  static void TearDownTestSuite() {
    delete server_;
    server_ = nullptr;
  }
  // Where it may be computed.
  static std::vector<Words> places() {
    const Words local{"--model", model().path().string(), "--dtype", "float32"};
    Words cluster = local, ranks = local;
    cluster.insert(cluster.end(), {"--distributed-executor-backend", "threads"});
    ranks.insert(ranks.end(), {"--tp", "2"});
    const uint16_t port = server_->port();
    return {local,
            cluster,
            ranks,
            {"--connect", "127.0.0.1:" + std::to_string(port), "--access-file",
             server_->access_file(port)}};
  }
  static ProcessResult run(const std::string& command, const Words& place, const Words& more,
                           const std::string& input = {}) {
    Words all{command};
    all.insert(all.end(), place.begin(), place.end());
    all.insert(all.end(), more.begin(), more.end());
    return tandem(all, input);
  }

  static test::Server* server_;
  test::TempDir dir_;
  Words files_;
};
test::Server* SoundPlaces::server_ = nullptr;

// Lines, without what rounding or the clock changes.
std::vector<json> answers_in(const std::string& text) {
  std::vector<json> out;
  std::istringstream in(text);
  const auto trim = [](json& answer) {
    if (!answer.contains("segments")) return;
    for (json& segment : answer["segments"])
      for (const char* rounded : {"avg_logprob", "no_speech_prob"}) segment.erase(rounded);
  };
  for (std::string line; std::getline(in, line);) {
    json& result = out.emplace_back(json_from<json>(line));
    result.erase("metrics");
    trim(result);
    if (result.contains("outputs")) trim(result["outputs"][0]);
  }
  return out;
}

TEST_F(SoundPlaces, SaysTheSameEverywhere) {
  Words more = files_;
  more.insert(more.end(), {"--format", "verbose_json"});
  std::vector<json> want;
  for (const Words& place : places()) {
    const ProcessResult r = run("transcribe", place, more);
    EXPECT_EQ(r.status, 0) << r.err;
    const auto got = answers_in(r.out);
    if (want.empty()) want = got;
    EXPECT_EQ(got, want) << place[0] << " " << place.back();
  }
  ASSERT_EQ(want.size(), files_.size());
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_FALSE(want[i]["segments"].empty());
    EXPECT_NEAR(want[i]["duration"].get<double>(), 0.4 + 2.3 * static_cast<double>(i), 1e-3);
  }
}

TEST_F(SoundPlaces, ABadFileIsNamedAndDisturbsNobody) {
  dir_.write("none.wav", "this is no sound");
  dir_.write("empty.wav", "");
  for (const Words& place : places()) {
    const ProcessResult good = run("transcribe", place, {files_[1], files_[2]});
    const ProcessResult r = run("transcribe", place,
                                {files_[1], (dir_ / "none.wav").string(), "/no/such/file.wav",
                                 (dir_ / "empty.wav").string(), files_[2]});
    EXPECT_EQ(r.status, 1);
    for (const char* name : {"none.wav", "/no/such/file.wav", "empty.wav"})
      EXPECT_NE(r.err.find(std::string(name) + ": "), std::string::npos) << r.err;
    EXPECT_EQ(r.out, good.out) << place.back();
  }
}

TEST_F(SoundPlaces, LinesMayNameSound) {
  std::string input;
  for (const std::string& file : files_)
    input += json{{"prompt", {{"prompt", ""}, {"multi_modal_data", {{"audio", file}}}}},
                  {"params", {{"language", "de"}, {"return_timestamps", true}}}}
                 .dump() +
             "\n";
  std::vector<json> want;
  for (const Words& place : places()) {
    const ProcessResult r = run("generate", place, {"--jsonl"}, input);
    EXPECT_EQ(r.status, 0) << r.err;
    const auto got = answers_in(r.out);
    ASSERT_EQ(got.size(), files_.size());
    for (const json& result : got) {
      EXPECT_EQ(result["language"], "<|de|>");
      EXPECT_FALSE(result["outputs"][0]["segments"].empty());
    }
    if (want.empty()) want = got;
    EXPECT_EQ(got, want) << place.back();
  }
}

// Segments as they are said; joined, they are the result's.
TEST_F(SoundPlaces, StreamsWindowByWindow) {
  const std::string input =
      json{{"prompt", {{"prompt", ""}, {"multi_modal_data", {{"audio", files_[4]}}}}}}.dump() +
      "\n";
  for (const Words& place : places()) {
    const ProcessResult r = run("generate", place, {"--jsonl", "--stream"}, input);
    EXPECT_EQ(r.status, 0) << r.err;
    std::istringstream lines(r.out);
    json segments = json::array(), result;
    std::string text;
    int deltas = 0;
    for (std::string line; std::getline(lines, line);) {
      result = json_from<json>(line);
      if (!result.contains("deltas")) break;
      ++deltas;
      for (const json& delta : result["deltas"]) {
        text += delta["text"];
        for (const json& segment : delta.value("segments", json::array()))
          segments.push_back(segment);
      }
    }
    EXPECT_GE(deltas, 5) << place.back();
    EXPECT_EQ(text, result["outputs"][0]["text"]);
    EXPECT_EQ(segments, result["outputs"][0]["segments"]);
  }
}

}  // namespace
}  // namespace tandem
