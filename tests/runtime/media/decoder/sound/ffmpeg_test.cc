// What the decoder hears against what the program `ffmpeg` gives for `-ar 16000 -ac 1 -f f32le`,
// which HuggingFace's pipelines call: the same number of samples, each within 1e-4. Files are made
// by ffmpeg too.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/media/decoder/decode_error.h"
#include "runtime/media/decoder/sound/sound_decoder.h"
#include "tests/support/files/files.h"

namespace tandem::decoder {
namespace {

struct Heard final : SoundSink {
  std::vector<float> all;
  std::vector<std::string> warnings;
  void samples(std::span<const float> samples) override {
    all.insert(all.end(), samples.begin(), samples.end());
  }
};

Heard hear(const std::string& bytes) {
  MemorySource source(bytes);
  Heard out;
  out.warnings = decode_sound(source, 16000, {}, out);
  return out;
}

class Ffmpeg : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("ffmpeg -version >/dev/null 2>&1") != 0) GTEST_SKIP() << "there is no ffmpeg";
  }
  std::string path(const std::string& name) const { return (dir_ / name).string(); }
  bool run(const std::string& arguments) const {
    return std::system(("cd " + dir_.path().string() + " && ffmpeg -nostdin -v error -y " +
                        arguments + " 2>log")
                           .c_str()) == 0;
  }
  // A file of `seconds` of a voice-like sound; false: this ffmpeg has no such encoder.
  bool make(const std::string& name, const std::string& options, double seconds = 1.3,
            int rate = 44100) const {
    const std::string formula =
        "0.4*sin(2*PI*(180+60*sin(9*t))*t)*(0.6+0.4*sin(5*t))+0.02*(random(0)-0.5)";
    return run("-f lavfi -i \"aevalsrc='" + formula + "':s=" + std::to_string(rate) +
               ":d=" + std::to_string(seconds) + "\" -bitexact " + options + " " + name);
  }
  std::vector<float> wanted(const std::string& name) const {
    run("-i " + name + " -ar 16000 -ac 1 -f f32le wanted");
    const std::string bytes = test::read_file(dir_ / "wanted");
    std::vector<float> out(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), out.size() * sizeof(float));
    return out;
  }
  // Returns what was heard.
  Heard compare(const std::string& name) const {
    SCOPED_TRACE(name);
    const std::vector<float> want = wanted(name);
    Heard got = hear(test::read_file(dir_ / name));
    EXPECT_GT(want.size(), 0U);
    EXPECT_EQ(got.all.size(), want.size());
    float worst = 0;
    for (size_t i = 0; i < std::min(want.size(), got.all.size()); ++i)
      worst = std::max(worst, std::fabs(want[i] - got.all[i]));
    EXPECT_LE(worst, 1e-4F);
    return got;
  }

  test::TempDir dir_;
};

TEST_F(Ffmpeg, EveryContainerAndCompression) {
  const std::map<std::string, std::string> kinds = {
      {"16.wav", "-c:a pcm_s16le"},
      {"8.wav", "-c:a pcm_u8"},
      {"24.wav", "-c:a pcm_s24le"},
      {"float.wav", "-c:a pcm_f32le"},
      {"double.wav", "-c:a pcm_f64le"},
      {"alaw.wav", "-c:a pcm_alaw -ar 8000"},
      {"mulaw.au", "-c:a pcm_mulaw -ar 8000"},
      {"ima.wav", "-c:a adpcm_ima_wav"},
      {"ms.wav", "-c:a adpcm_ms"},
      {"g726.wav", "-c:a g726 -ar 8000 -ac 1"},
      {"gsm.wav", "-c:a libgsm_ms -ar 8000 -ac 1"},
      {"big.w64", "-c:a pcm_s16le"},
      {"sound.aiff", "-c:a pcm_s24be"},
      {"sound.caf", "-c:a pcm_s16be"},
      {"alac.caf", "-c:a alac"},
      {"sound.flac", ""},
      {"flac.ogg", "-c:a flac"},
      {"vorbis.ogg", "-c:a libvorbis"},
      {"sound.opus", "-c:a libopus"},
      {"speex.ogg", "-c:a libspeex -ar 16000 -ac 1"},
      {"sound.mp3", "-c:a libmp3lame"},
      {"low.mp3", "-c:a libmp3lame -ar 11025 -b:a 16k"},
      {"sound.mp2", "-c:a mp2 -f mp2"},
      {"phone.m4a", "-c:a aac"},
      {"alac.m4a", "-c:a alac"},
      {"sound.aac", "-c:a aac"},
      {"fragments.mp4", "-c:a aac -movflags frag_keyframe+empty_moov"},
      {"end.mp4", "-c:a aac"},
      {"sound.mov", "-c:a pcm_s16be"},
      {"sound.webm", "-c:a libopus"},
      {"sound.mkv", "-c:a flac"},
      {"live.mkv", "-c:a libvorbis -f matroska -live 1"},
      {"sound.wma", "-c:a wmav2"},
      {"old.wma", "-c:a wmav1"},
      {"sound.ac3", "-c:a ac3"},
      {"sound.eac3", "-c:a eac3"},
      {"sound.ts", "-c:a mp2"},
      {"sound.flv", "-c:a libmp3lame"},
      {"sound.avi", "-c:a pcm_s16le"},
      {"sound.wv", "-c:a wavpack"},
      {"sound.tta", "-c:a tta"},
      {"voice.amr", "-c:a libopencore_amrnb -ar 8000 -ac 1"},
      {"film.mp4", "-f lavfi -i testsrc=d=1:s=64x48:r=5 -c:v mpeg4 -c:a aac -shortest"},
      {"film.mkv", "-f lavfi -i testsrc=d=1:s=64x48:r=5 -c:v mpeg4 -c:a libmp3lame -shortest"},
  };
  int made = 0;
  for (const auto& [name, options] : kinds) {
    if (!make(name, options)) continue;
    ++made;
    const Heard got = compare(name);
    EXPECT_TRUE(got.warnings.empty()) << name << ": " << got.warnings.front();
  }
  EXPECT_GE(made, 38);
}

TEST_F(Ffmpeg, RatesAndChannels) {
  for (const char* rate : {"8000", "11025", "22050", "32000", "48000", "96000", "16000"})
    for (const char* layout : {"mono", "stereo", "5.1", "7.1", "quad"}) {
      const std::string name = std::string(rate) + layout + ".wav";
      ASSERT_TRUE(make(
          name,
          std::string("-ar ") + rate + " -af aformat=channel_layouts=" + layout + " -c:a pcm_s16le",
          0.4));
      compare(name);
    }
  ASSERT_TRUE(make("three.wav", "-ac 3 -c:a pcm_s16le", 0.4));
  compare("three.wav");
}

// What is joined without being made new: each part is heard with its own rate and channels.
TEST_F(Ffmpeg, FilesThatChangeOnTheirWay) {
  const auto joined = [&](const std::vector<std::string>& names, const std::string& to) {
    std::string all;
    for (const std::string& name : names) all += test::read_file(dir_ / name);
    return dir_.write(to, all);
  };
  ASSERT_TRUE(make("mono.mp3", "-c:a libmp3lame -ac 1 -write_xing 0 -id3v2_version 0"));
  ASSERT_TRUE(make("both.mp3", "-c:a libmp3lame -ac 2 -write_xing 0 -id3v2_version 0"));
  ASSERT_TRUE(make("slow.mp3", "-c:a libmp3lame -ar 22050 -write_xing 0 -id3v2_version 0"));
  ASSERT_TRUE(make("one.ogg", "-c:a libvorbis -serial_offset 1"));
  ASSERT_TRUE(make("two.ogg", "-c:a libvorbis -ac 2 -ar 32000 -serial_offset 2"));
  ASSERT_TRUE(make("one.opus", "-c:a libopus -serial_offset 3"));
  ASSERT_TRUE(make("two.opus", "-c:a libopus -ac 2 -serial_offset 4"));
  joined({"mono.mp3", "both.mp3"}, "channels.mp3");
  joined({"both.mp3", "slow.mp3", "both.mp3"}, "rates.mp3");
  joined({"one.ogg", "two.ogg"}, "chain.ogg");
  joined({"one.opus", "two.opus"}, "chain.opus");
  EXPECT_NEAR(static_cast<double>(compare("channels.mp3").all.size()) / 16000, 2.6, 0.15);
  EXPECT_NEAR(static_cast<double>(compare("rates.mp3").all.size()) / 16000, 3.9, 0.2);
  EXPECT_NEAR(static_cast<double>(compare("chain.ogg").all.size()) / 16000, 2.6, 0.1);
  EXPECT_NEAR(static_cast<double>(compare("chain.opus").all.size()) / 16000, 2.6, 0.1);
}

// They are heard as far as they go; that something is missing is said.
TEST_F(Ffmpeg, FilesThatAreCutOrDamaged) {
  ASSERT_TRUE(make("a.wav", "-c:a pcm_s16le", 3));
  ASSERT_TRUE(make("a.flac", "", 3));
  ASSERT_TRUE(make("a.ogg", "-c:a libvorbis", 3));
  ASSERT_TRUE(make("a.mp3", "-c:a libmp3lame", 3));
  ASSERT_TRUE(make("a.m4a", "-c:a aac -movflags +faststart", 3));
  ASSERT_TRUE(make("a.mkv", "-c:a libopus", 3));
  for (const char* name : {"a.wav", "a.flac", "a.ogg", "a.mp3", "a.m4a", "a.mkv"}) {
    const std::string whole = test::read_file(dir_ / name);
    dir_.write(std::string("cut_") + name, whole.substr(0, whole.size() * 3 / 5));
    const Heard cut = compare(std::string("cut_") + name);
    EXPECT_GT(cut.all.size(), 16000U) << name;
    std::string damaged = whole;
    for (size_t i = 0; i < 400; ++i) damaged[whole.size() / 2 + i] = static_cast<char>(i * 73);
    dir_.write(std::string("bad_") + name, damaged);
    const Heard bad = compare(std::string("bad_") + name);
    if (std::string(name) != "a.wav") {
      EXPECT_FALSE(bad.warnings.empty()) << name;
    }
  }
  EXPECT_FALSE(hear(test::read_file(dir_ / "cut_a.m4a")).warnings.empty());
  EXPECT_FALSE(hear(test::read_file(dir_ / "cut_a.flac")).warnings.empty());
}

// Starts that are cut by an edit list, sound that begins after its film, tracks in a film.
TEST_F(Ffmpeg, EditsAndTracks) {
  ASSERT_TRUE(make("a.wav", "-c:a pcm_s16le", 3));
  ASSERT_TRUE(run("-i a.wav -c:a aac a.m4a"));
  ASSERT_TRUE(run("-ss 0.7 -i a.m4a -c copy edited.m4a"));
  compare("edited.m4a");
  ASSERT_TRUE(run(
      "-f lavfi -i testsrc=d=3:s=64x48:r=5 -itsoffset 0.5 -i a.wav -c:v mpeg4 -c:a aac late.mp4"));
  compare("late.mp4");
  ASSERT_TRUE(
      run("-f lavfi -i testsrc=d=2:s=64x48:r=5 -f lavfi -i sine=300:d=2 -f lavfi -i sine=900:d=1 "
          "-map 0 -map 1 -map 2 -c:v mpeg4 -c:a aac two.mp4"));
  EXPECT_NEAR(static_cast<double>(compare("two.mp4").all.size()) / 16000, 2, 0.1);
}

// Found by the fuzzer: an ALAC file that says it has 2^31 - 2^24 channels. (A score of tracks
// that is added up in 32 bits takes it for none.)
TEST(SoundDecoder, ManyChannels) {
  const std::string file = TANDEM_SOURCE_DIR "/tests/fuzz/corpus/audio_fuzzer/channels.caf";
  try {
    hear(test::read_file(file));
    FAIL();
  } catch (const DecodeError& e) {
    EXPECT_STREQ(e.what(), "has sound that cannot be decoded (alac: Invalid argument)");
  }
}

}  // namespace
}  // namespace tandem::decoder
