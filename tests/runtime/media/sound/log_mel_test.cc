// Log-mel spectrograms against HuggingFace's numbers (WhisperFeatureExtractor, transformers 5.23)
// of a sound that is a formula, and a plain transform.
#include "runtime/media/sound/log_mel.h"

#include <gtest/gtest.h>

#include <numbers>
#include <random>

#include "base/error.h"
#include "tests/support/files/files.h"
#include "tests/support/media/sounds.h"

namespace tandem {
namespace {

using testing::two_tones;

struct Point {
  int64_t frame;
  int bin;
  float value;
};

void expect_points(const LogMel& mel, const std::vector<Point>& points) {
  for (const Point& p : points)
    EXPECT_NEAR(mel.values[static_cast<size_t>(p.frame * mel.bins + p.bin)], p.value, 1e-4)
        << p.frame << ", " << p.bin;
}

LogMel mel_of(int64_t samples, int bins) {
  AudioFile file =
      AudioFile::of_bytes(testing::float_wav(two_tones(samples), 16000), "audio", 16000);
  return read_log_mel(file, {.bins = bins});
}

TEST(LogMel, OfAShortSound) {
  const LogMel mel = mel_of(16123, 80);
  EXPECT_EQ(mel.frames, 3000);
  EXPECT_EQ(static_cast<int64_t>(mel.values.size()), mel.frames * mel.bins);
  EXPECT_DOUBLE_EQ(mel.seconds, 16123 / 16000.0);
  expect_points(
      mel,
      {{0, 0, 0.874846F},    {0, 17, 0.806335F},    {0, 40, 0.303254F},    {0, 79, -0.196164F},
       {1, 0, 0.439836F},    {1, 17, 0.277481F},    {1, 40, -0.204731F},   {1, 79, -0.67861F},
       {50, 0, 1.248535F},   {50, 17, -0.191848F},  {50, 40, -0.67861F},   {50, 79, -0.67861F},
       {99, 0, 1.093019F},   {99, 17, -0.193588F},  {99, 40, -0.67861F},   {99, 79, -0.67861F},
       {100, 0, 1.086629F},  {100, 17, 0.563456F},  {100, 40, 0.28413F},   {100, 79, 0.02808F},
       {101, 0, 1.014512F},  {101, 17, 0.778156F},  {101, 40, 0.507477F},  {101, 79, 0.251715F},
       {2999, 0, -0.67861F}, {2999, 17, -0.67861F}, {2999, 40, -0.67861F}, {2999, 79, -0.67861F}});
}

TEST(LogMel, OfMoreBins) {
  const LogMel mel = mel_of(16123, 128);
  EXPECT_EQ(mel.frames, 3000);
  EXPECT_EQ(static_cast<int64_t>(mel.values.size()), mel.frames * mel.bins);
  EXPECT_DOUBLE_EQ(mel.seconds, 16123 / 16000.0);
  expect_points(
      mel,
      {{0, 0, 0.799087F},    {0, 17, 1.058951F},    {0, 40, 0.631065F},    {0, 79, 0.137074F},
       {1, 0, 0.364077F},    {1, 17, 1.22951F},     {1, 40, 0.122967F},    {1, 79, -0.37159F},
       {50, 0, 1.172776F},   {50, 17, 1.231027F},   {50, 40, -0.62992F},   {50, 79, -0.62992F},
       {99, 0, 1.01726F},    {99, 17, 1.231029F},   {99, 40, -0.62992F},   {99, 79, -0.62992F},
       {100, 0, 1.01087F},   {100, 17, 1.223277F},  {100, 40, 0.478242F},  {100, 79, 0.192849F},
       {101, 0, 0.938753F},  {101, 17, 0.993116F},  {101, 40, 0.701499F},  {101, 79, 0.416427F},
       {2999, 0, -0.62992F}, {2999, 17, -0.62992F}, {2999, 40, -0.62992F}, {2999, 79, -0.62992F}});
}

TEST(LogMel, OfALongSound) {
  const LogMel mel = mel_of(480321, 80);
  EXPECT_EQ(mel.frames, 3002);
  EXPECT_EQ(static_cast<int64_t>(mel.values.size()), mel.frames * mel.bins);
  EXPECT_DOUBLE_EQ(mel.seconds, 480321 / 16000.0);
  expect_points(mel, {{0, 0, 0.874846F},
                      {0, 17, 0.806335F},
                      {0, 40, 0.303254F},
                      {0, 79, -0.196164F},
                      {1500, 0, -0.56581F},
                      {1500, 17, -0.197885F},
                      {1500, 40, -0.56581F},
                      {1500, 79, -0.56581F},
                      {3000, 0, -0.56581F},
                      {3000, 17, -0.192178F},
                      {3000, 40, -0.56581F},
                      {3000, 79, -0.56581F},
                      {3001, 0, 0.067318F},
                      {3001, 17, 0.09085F},
                      {3001, 40, -0.17986F},
                      {3001, 79, -0.56581F}});
}

TEST(LogMel, BlocksOfSamplesMakeNoDifference) {
  const std::vector<float> sound = two_tones(40000);
  LogMelMaker whole({});
  whole.add(sound);
  const LogMel want = whole.finish();
  std::mt19937 random(5);
  for (int round = 0; round < 5; ++round) {
    LogMelMaker maker({});
    for (size_t at = 0; at < sound.size();) {
      const size_t count =
          std::min<size_t>(1 + random() % (round < 2 ? 300 : 9000), sound.size() - at);
      maker.add(std::span(sound).subspan(at, count));
      at += count;
    }
    EXPECT_EQ(maker.finish().values, want.values);
  }
  EXPECT_EQ(want.frames, 250);
}

TEST(LogMel, SilenceIsTheSameEverywhere) {
  LogMelMaker maker({});
  maker.add(std::vector<float>(20000));
  for (const float x : maker.finish().values) EXPECT_FLOAT_EQ(x, -1.5F);
}

// What is no sound at all is not transformed.
TEST(LogMel, SilenceIsAsWhatNobodyHears) {
  const auto frames = [](float silence) {
    std::vector<float> samples(20'000);
    for (size_t i = 0; i < samples.size(); ++i) {
      const bool loud = i < 3'000 || (i > 8'000 && i < 9'111) || i == 15'000;
      samples[i] = loud ? std::sin(0.1f * static_cast<float>(i)) : i % 2 == 0 ? silence : -silence;
    }
    LogMelMaker maker({});
    maker.add(samples);
    return maker.finish();
  };
  const LogMel none = frames(0), faint = frames(1e-30f);
  EXPECT_EQ(none.frames, 125);
  EXPECT_EQ(none.values, faint.values);
}

TEST(LogMel, OptionsOfAModel) {
  const test::TempDir dir;
  EXPECT_EQ(LogMelOptions::load(dir.path()).bins, 80);
  dir.write("preprocessor_config.json", R"({"feature_size": 128, "hop_length": 160})");
  EXPECT_EQ(LogMelOptions::load(dir.path()).bins, 128);
  dir.write("preprocessor_config.json", R"({"feature_size": "many"})");
  EXPECT_THROW(LogMelOptions::load(dir.path()), InputError);
  dir.write("preprocessor_config.json", R"({"hop_length": 0})");
  EXPECT_THROW(LogMelOptions::load(dir.path()), InputError);
}

TEST(Fourier, MatchesThePlainSum) {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (const size_t size : {2, 3, 16, 30, 49, 97, 400, 512}) {
    std::vector<double> a(size), b(size);
    for (double& x : a) x = normal(random);
    for (double& x : b) x = normal(random);
    Fourier fourier(size);
    std::vector<double> pa(size / 2 + 1), pb(size / 2 + 1), alone(size / 2 + 1);
    fourier.power(a, b, pa, pb);
    fourier.power(a, {}, alone, {});
    for (size_t k = 0; k <= size / 2; ++k)
      for (const auto& [x, power] :
           {std::pair(&a, &pa), std::pair(&b, &pb), std::pair(&a, &alone)}) {
        std::complex<double> sum = 0;
        for (size_t i = 0; i < size; ++i)
          sum += (*x)[i] * std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k * i) /
                                               static_cast<double>(size));
        EXPECT_NEAR((*power)[k], std::norm(sum), 1e-9 * static_cast<double>(size))
            << size << " " << k;
      }
  }
}

}  // namespace
}  // namespace tandem
