// Files of sound: what comes out of good ones, and what is said of bad ones.
// (tests/runtime/media/decoder/sound compares kinds of files with FFmpeg.)
#include "runtime/media/sound/audio_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "tests/support/files/files.h"
#include "tests/support/media/sounds.h"

namespace tandem::audio_file_test {
namespace {

using testing::float_wav;
using testing::little_endian;
using testing::two_tones;

struct Heard {
  std::vector<float> samples;
  std::vector<std::string> warnings;
};

Heard all_of(AudioFile file) {
  Heard out;
  for (std::vector<float> part; file.read(part);)
    out.samples.insert(out.samples.end(), part.begin(), part.end());
  out.warnings = file.warnings();
  return out;
}

Heard hear(const std::string& bytes, const AudioLimits& limits = {}) {
  return all_of(AudioFile::of_bytes(bytes, "audio", 16000, limits));
}

std::vector<float> read(const std::string& bytes, const AudioLimits& limits = {}) {
  return hear(bytes, limits).samples;
}

std::string error_of(const std::string& bytes, const AudioLimits& limits = {}) {
  try {
    read(bytes, limits);
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "audio");
    return error.what();
  }
  return "none";
}

std::string seed(const std::string& name) {
  return test::read_file(std::filesystem::path(TANDEM_SOURCE_DIR) /
                         "tests/fuzz/corpus/audio_fuzzer" / name);
}

TEST(AudioFile, SamplesOfTheRateAreAsTheyAre) {
  const std::vector<float> sound = two_tones(50001);
  EXPECT_EQ(read(float_wav(sound, 16000)), sound);
}

// As FFmpeg mixes them (-ac 1): the louder by 3 dB than their mean.
TEST(AudioFile, ChannelsAreMixed) {
  std::vector<float> both;
  for (const float x : two_tones(20000)) both.insert(both.end(), {x, 0.25F});
  const std::vector<float> got = read(float_wav(both, 16000, 2));
  ASSERT_EQ(got.size(), 20000U);
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], (both[2 * i] + 0.25F) * std::sqrt(0.5), 1e-6);
}

// A tone of 440 Hz is one after a change of rate, as long and as loud.
TEST(AudioFile, RatesAreChanged) {
  for (const int rate : {8000, 11025, 22050, 44100, 48000, 96000}) {
    SCOPED_TRACE(rate);
    std::vector<float> tone;
    for (int i = 0; i < 2 * rate; ++i)
      tone.push_back(static_cast<float>(0.5 * std::sin(2 * M_PI * 440 * i / rate)));
    const std::vector<float> got = read(float_wav(tone, rate));
    EXPECT_NEAR(static_cast<double>(got.size()), 32000, 2);
    for (size_t i = 2000; i < 30000; i += 7)
      EXPECT_NEAR(got[i], 0.5 * std::sin(2 * M_PI * 440 * static_cast<double>(i) / 16000), 2e-3)
          << i;
  }
}

TEST(AudioFile, OtherFormats) {
  for (const char* name : {"24.flac", "alac.caf", "vorbis.ogg", "opus.ogg", "stereo.mp3",
                           "pcm24.aiff", "ima.wav", "pcm.w64", "aac.m4a", "opus.webm"}) {
    SCOPED_TRACE(name);
    const std::string bytes = seed(name);
    const test::TempDir dir;
    const auto path = dir.write("sound", bytes);
    const Heard got = all_of(AudioFile::open(MediaSource::open(path, "audio"), "audio", 16000));
    EXPECT_GT(got.samples.size(), 50U);
    EXPECT_EQ(read(bytes), got.samples);
  }
}

TEST(AudioFile, WhatIsNoSound) {
  EXPECT_NE(error_of("").find("audio: is no sound"), std::string::npos) << error_of("");
  EXPECT_NE(error_of("a text is no sound, however long it is").find("is no sound"),
            std::string::npos);
  EXPECT_NE(error_of(float_wav({}, 16000)).find("has no samples"), std::string::npos)
      << error_of(float_wav({}, 16000));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(error_of(float_wav({0, 1, nan, 0}, 16000)).find("sample 2 is not finite"),
            std::string::npos);
  EXPECT_NE(error_of(float_wav({0, 1, 0}, 7)).find("7 samples a second"), std::string::npos);
  EXPECT_NE(error_of(float_wav(std::vector<float>(400), 16000, 100)).find("100 channels"),
            std::string::npos);
}

// Nobody has said where so many channels are: their mean.
TEST(AudioFile, ChannelsWithoutPlaces) {
  const std::vector<float> got = read(float_wav(std::vector<float>(4000, 0.5F), 16000, 40));
  ASSERT_EQ(got.size(), 100U);
  for (const float x : got) EXPECT_NEAR(x, 0.5F, 1e-6);
}

// They are heard as far as they go, and it is said.
TEST(AudioFile, FilesThatAreCut) {
  const std::string whole = float_wav(two_tones(40000), 16000);
  const Heard half = hear(whole.substr(0, 80000));
  EXPECT_NEAR(static_cast<double>(half.samples.size()), 20000, 20);
  // Who writes to a pipe does not know the length.
  std::string pipe = whole;
  pipe.replace(4, 4, "\xff\xff\xff\xff");
  pipe.replace(40, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(read(pipe).size(), 40000U);
  const std::string flac = seed("stereo_44k.flac");
  const Heard rest = hear(flac + "what follows is no sound at all, and is long enough to be seen");
  EXPECT_FALSE(rest.warnings.empty());
}

TEST(AudioFile, LengthsThatAreClaimed) {
  // RF64, whose length has 64 bits: 2^40 samples, and 100 are there.
  const uint64_t data = uint64_t{1} << 42;
  const std::string rf64 = "RF64\xff\xff\xff\xffWAVEds64" + little_endian(28, 4) +
                           little_endian(data + 72, 8) + little_endian(data, 8) +
                           little_endian(data / 4, 8) + little_endian(0, 4) + "fmt " +
                           little_endian(16, 4) + little_endian(3, 2) + little_endian(1, 2) +
                           little_endian(16000, 4) + little_endian(64000, 4) + little_endian(4, 2) +
                           little_endian(32, 2) + "data\xff\xff\xff\xff" + std::string(400, '\0');
  EXPECT_EQ(read(rf64).size(), 100U);
  EXPECT_NE(error_of(float_wav(two_tones(32001), 16000), {.seconds = 2}).find("more than the 2"),
            std::string::npos);
  EXPECT_EQ(read(float_wav(two_tones(32000), 16000), {.seconds = 2}).size(), 32000U);
}

// Any bytes behind a good header, and any header: an error or a sound, nothing else.
TEST(AudioFile, DamagedFiles) {
  std::mt19937 random(11);
  const std::vector<std::string> files = {float_wav(two_tones(3000), 16000), seed("24.flac"),
                                          seed("vorbis.ogg"), seed("aac.m4a")};
  for (int round = 0; round < 100; ++round) {
    std::string bytes = files[static_cast<size_t>(round) % files.size()];
    for (int k = 0; k < 4; ++k)
      bytes[random() % std::min<size_t>(bytes.size(), k < 2 ? 64 : bytes.size())] =
          static_cast<char>(random());
    error_of(bytes, {.seconds = 60});
  }
}

}  // namespace
}  // namespace tandem::audio_file_test
