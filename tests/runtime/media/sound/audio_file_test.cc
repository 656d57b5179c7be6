// Files of sound: what comes out of good ones, and what is said of bad ones.
#include "runtime/media/sound/audio_file.h"

#include <gtest/gtest.h>
#include <sndfile.h>

#include <limits>
#include <random>

#include "base/error.h"
#include "tests/support/files/files.h"
#include "tests/support/media/sounds.h"

namespace tandem {
namespace {

using testing::float_wav;
using testing::little_endian;
using testing::two_tones;

std::vector<float> all_of(AudioFile file) {
  std::vector<float> out;
  for (std::vector<float> part; file.read(part);) out.insert(out.end(), part.begin(), part.end());
  return out;
}

std::vector<float> read(const std::string& bytes, int rate = 16000,
                        const AudioLimits& limits = {}) {
  return all_of(AudioFile::of_bytes(bytes, "audio", rate, limits));
}

std::string error_of(const std::string& bytes, const AudioLimits& limits = {}) {
  try {
    read(bytes, 16000, limits);
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "audio");
    return error.what();
  }
  return "none";
}

TEST(AudioFile, SamplesOfTheRateAreAsTheyAre) {
  const std::vector<float> sound = two_tones(50001);
  EXPECT_EQ(read(float_wav(sound, 16000)), sound);
}

TEST(AudioFile, ChannelsAreMixed) {
  std::vector<float> both;
  for (const float x : two_tones(20000)) both.insert(both.end(), {x, 0.25F});
  const std::vector<float> got = read(float_wav(both, 16000, 2));
  ASSERT_EQ(got.size(), 20000U);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_FLOAT_EQ(got[i], (both[2 * i] + 0.25F) / 2);
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

std::string encoded(const test::TempDir& dir, int format, const std::vector<float>& sound) {
  SF_INFO info{};
  info.samplerate = 16000;
  info.channels = 1;
  info.format = format;
  const std::string path = (dir / "sound").string();
  SNDFILE* file = sf_open(path.c_str(), SFM_WRITE, &info);
  EXPECT_NE(file, nullptr) << sf_strerror(nullptr);
  sf_writef_float(file, sound.data(), static_cast<sf_count_t>(sound.size()));
  sf_close(file);
  return test::read_file(path);
}

TEST(AudioFile, OtherFormats) {
  const test::TempDir dir;
  const std::vector<float> sound = two_tones(30000);
  for (const int format : {SF_FORMAT_WAV | SF_FORMAT_PCM_16, SF_FORMAT_FLAC | SF_FORMAT_PCM_16,
                           SF_FORMAT_AIFF | SF_FORMAT_PCM_24, SF_FORMAT_OGG | SF_FORMAT_VORBIS}) {
    SCOPED_TRACE(format);
    const std::string bytes = encoded(dir, format, sound);
    const std::vector<float> got = all_of(AudioFile::open(dir / "sound", "audio", 16000));
    ASSERT_EQ(got.size(), sound.size());
    const bool lossy = (format & SF_FORMAT_TYPEMASK) == SF_FORMAT_OGG;
    for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], sound[i], lossy ? 0.1 : 1e-4) << i;
    EXPECT_EQ(read(bytes), got);
  }
}

TEST(AudioFile, WhatIsNoSound) {
  EXPECT_NE(error_of("").find("audio: is no sound"), std::string::npos) << error_of("");
  EXPECT_NE(error_of("a text is no sound, however long it is").find("is no sound"),
            std::string::npos);
  EXPECT_NE(error_of(float_wav({}, 16000)).find("has no samples"), std::string::npos);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(error_of(float_wav({0, 1, nan, 0}, 16000)).find("sample 2 is not finite"),
            std::string::npos);
  EXPECT_NE(error_of(float_wav({0, 1, 0}, 7)).find("7 samples a second"), std::string::npos);
  EXPECT_NE(error_of(float_wav(std::vector<float>(400), 16000, 100)).find("100 channels"),
            std::string::npos);
}

TEST(AudioFile, FilesThatAreCut) {
  const std::string whole = float_wav(two_tones(40000), 16000);
  EXPECT_NE(error_of(whole.substr(0, whole.size() / 2)).find("is cut"), std::string::npos);
  const test::TempDir dir;
  const std::string flac = encoded(dir, SF_FORMAT_FLAC | SF_FORMAT_PCM_16, two_tones(40000));
  EXPECT_NE(error_of(flac.substr(0, flac.size() / 2)), "none");
  // Who writes to a pipe does not know the length.
  std::string pipe = whole;
  pipe.replace(4, 4, "\xff\xff\xff\xff");
  pipe.replace(40, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(read(pipe).size(), 40000U);
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
  const std::string error = error_of(rf64);
  EXPECT_TRUE(error.find("more than the 14400") != std::string::npos ||
              error.find("is cut") != std::string::npos ||
              error == "none")  // libsndfile may count what is there
      << error;
  if (error == "none") {
    EXPECT_EQ(read(rf64).size(), 100U);
  }
  EXPECT_NE(error_of(float_wav(two_tones(32001), 16000), {.seconds = 2}).find("more than the 2"),
            std::string::npos);
  EXPECT_EQ(read(float_wav(two_tones(32000), 16000), 16000, {.seconds = 2}).size(), 32000U);
}

TEST(AudioFile, PathsThatAreNoFiles) {
  const test::TempDir dir;
  for (const auto& path : {dir / "nothing", dir.path()}) {
    try {
      AudioFile::open(path, "audio", 16000);
      ADD_FAILURE() << path;
    } catch (const InputError& error) {
      EXPECT_EQ(error.param(), "audio");
    }
  }
}

// Any bytes behind a good header, and any header: an error or a sound, nothing else.
TEST(AudioFile, DamagedFiles) {
  std::mt19937 random(11);
  const test::TempDir dir;
  std::vector<std::string> files = {float_wav(two_tones(3000), 16000)};
  for (const int format : {SF_FORMAT_FLAC | SF_FORMAT_PCM_16, SF_FORMAT_OGG | SF_FORMAT_VORBIS,
                           SF_FORMAT_AIFF | SF_FORMAT_PCM_16})
    files.push_back(encoded(dir, format, two_tones(3000)));
  for (int round = 0; round < 200; ++round) {
    std::string bytes = files[static_cast<size_t>(round) % files.size()];
    for (int k = 0; k < 4; ++k)
      bytes[random() % std::min<size_t>(bytes.size(), k < 2 ? 64 : bytes.size())] =
          static_cast<char>(random());
    error_of(bytes, {.seconds = 60});
  }
}

}  // namespace
}  // namespace tandem
