#include "runtime/media/sound/live/live_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <random>

#include "base/error.h"
#include "runtime/media/sound/live/live_rate.h"
#include "runtime/media/sound/live/resampler.h"

namespace tandem::live_formats_test {
namespace {

std::vector<int16_t> decoded(const std::string& bytes, LiveCoding coding) {
  std::vector<int16_t> out;
  decode_samples(bytes, coding, out);
  return out;
}

// The values of ITU-T G.711 at its corners.
TEST(LiveFormats, Samples) {
  using V = std::vector<int16_t>;
  EXPECT_EQ(decoded(std::string("\x01\x02\xff\xff\x00\x80", 6), LiveCoding::kPcm16),
            (V{0x201, -1, -32768}));
  EXPECT_EQ(decoded(std::string("\xff\x7f\x00\x80\xf0\x8f", 6), LiveCoding::kMuLaw),
            (V{0, 0, -32124, 32124, 120, 16764}));
  EXPECT_EQ(decoded("\xd5\x55\xaa\x2a", LiveCoding::kALaw), (V{8, -8, 32256, -32256}));
}

TEST(LiveFormats, WavFiles) {
  const std::vector<int16_t> samples = {1, -2, 300};
  const std::string file = wav_file(samples, 16000);
  for (size_t n = 0; n < 44; ++n) {
    WavHeader header;
    EXPECT_FALSE(read_wav_header(std::string_view(file).substr(0, n), "input", header)) << n;
  }
  WavHeader header;
  ASSERT_TRUE(read_wav_header(file, "input", header));
  EXPECT_EQ(header.bytes, 44u);
  EXPECT_EQ(header.rate, 16000);
  EXPECT_EQ(decoded(file.substr(header.bytes), LiveCoding::kPcm16), samples);
  // A chunk in front, of an odd length.
  std::string more = file;
  more.insert(12, std::string("LIST\x03\0\0\0abc\0", 12));
  ASSERT_TRUE(read_wav_header(more, "input", header));
  EXPECT_EQ(header.bytes, 56u);
  std::string endless = file.substr(0, 12);
  for (int i = 0; i < 3; ++i)
    endless += std::string("junk\xff\xff\xff\x7f", 8) + std::string(65536, 'x');
  const auto with = [&](size_t at, char c) {
    std::string changed = file;
    changed[at] = c;
    return changed;
  };
  for (const std::string& wrong :
       {std::string(60, 'x'), with(22, 2), with(34, 8), with(20, 3), with(16, 4), endless,
        "RIFF1234WAVEdata" + std::string(8, '\0')}) {
    WavHeader unread;
    EXPECT_THROW(read_wav_header(wrong, "input", unread), InputError);
  }
}

TEST(Resampler, KeepsTonesAndTheirPlaces) {
  for (const int from : {8000, 11025, 22050, 24000, 44100, 48000}) {
    std::vector<float> in, out, parts;
    for (int i = 0; i < from; ++i)
      in.push_back(static_cast<float>(std::sin(2 * std::numbers::pi * 440 * i / from)));
    Resampler(from, 16000).add(in, out);
    EXPECT_NEAR(static_cast<double>(out.size()), 16000, 60);
    for (size_t i = 100; i < out.size() - 100; ++i)
      ASSERT_NEAR(out[i], std::sin(2 * std::numbers::pi * 440 * static_cast<double>(i) / 16000),
                  1e-4)
          << from << " " << i;
    std::mt19937 random(3);
    Resampler piecewise(from, 16000);
    for (size_t at = 0; at < in.size();) {
      const size_t n = std::min<size_t>(1 + random() % 500, in.size() - at);
      piecewise.add(std::span(in).subspan(at, n), parts);
      at += n;
      ASSERT_LE(piecewise.kept(), 200u + 500u);
    }
    EXPECT_EQ(parts, out);
  }
  // What the lower rate cannot carry is not heard as something else.
  std::vector<float> high, out;
  for (int i = 0; i < 24000; ++i)
    high.push_back(static_cast<float>(std::sin(2 * std::numbers::pi * 8500 * i / 24000.0)));
  Resampler(24000, 16000).add(high, out);
  for (size_t i = 100; i < out.size() - 100; ++i) ASSERT_NEAR(out[i], 0, 3e-3);
}

// Each sample of the output by the definition: a windowed sinc at its place, in doubles.
std::vector<double> by_definition(const std::vector<float>& in, int from, int to) {
  const double slower = std::min(from, to), reach = 24 / slower, cutoff = 0.93 * slower;
  std::vector<double> out;
  for (int64_t i = 0; i * from < std::ssize(in) * to; ++i) {
    double sum = 0;
    for (size_t n = 0; n < in.size(); ++n) {
      const double t = static_cast<double>(i) / to - static_cast<double>(n) / from;
      if (std::abs(t) > reach) continue;
      const double x = std::numbers::pi * cutoff * t;
      const double hann = 0.5 + 0.5 * std::cos(std::numbers::pi * t / reach);
      sum += static_cast<double>(in[n]) * hann * (x == 0 ? 1 : std::sin(x) / x) * cutoff / from;
    }
    out.push_back(sum);
  }
  return out;
}

TEST(Resampler, IsTheFilterByDefinition) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> noise(-1, 1);
  for (const int from : {8000, 11025, 16000, 22050, 44100, 48000}) {
    SCOPED_TRACE(from);
    Resampler resampler(from, 16000);
    // Twice: after finish() the next sample is the first one again.
    for (const size_t length : {size_t{1}, size_t{700}, size_t{1234}}) {
      std::vector<float> in(length), out;
      for (float& x : in) x = noise(random);
      for (size_t at = 0; at < length;) {
        const size_t n = std::min<size_t>(1 + random() % 90, length - at);
        resampler.add(std::span(in).subspan(at, n), out);
        at += n;
      }
      resampler.finish(out);
      const auto want = by_definition(in, from, 16000);
      ASSERT_EQ(out.size(), want.size());
      for (size_t i = 0; i < out.size(); ++i)
        ASSERT_NEAR(static_cast<double>(out[i]), want[i], 2e-6) << i;
    }
  }
}

TEST(LiveRate, ChangesRatesWithoutWholeWindowsAlone) {
  for (const int rate : {8000, 16000, 24000, 48000}) {
    EXPECT_TRUE(LiveRate::takes(rate));
    EXPECT_FALSE(LiveRate(rate).changes());
    EXPECT_EQ(LiveRate(rate).rate(), rate);
  }
  for (const int rate : {7975, 48025, 44101, 11026, 0}) EXPECT_FALSE(LiveRate::takes(rate));
  for (const int rate : {11025, 22050, 44100}) {
    EXPECT_TRUE(LiveRate::takes(rate));
    LiveRate live(rate);
    ASSERT_TRUE(live.changes());
    EXPECT_EQ(live.rate(), 16000);
    // Full scale is neither cut nor wrapped around.
    std::vector<int16_t> loud(static_cast<size_t>(rate));
    for (size_t i = 0; i < loud.size(); ++i) loud[i] = i / 10 % 2 == 0 ? INT16_MAX : INT16_MIN;
    std::vector<int16_t> out = live.add(loud);
    const auto rest = live.finish();
    out.insert(out.end(), rest.begin(), rest.end());
    EXPECT_EQ(out.size(), 16000u);
    for (size_t i = 0; i < out.size(); ++i) {
      const double at = static_cast<double>(i) * rate / 16000 / 10;
      if (std::abs(at - std::floor(at) - 0.5) > 0.1) continue;  // in the middle of a half wave
      EXPECT_EQ(out[i] > 0, static_cast<int64_t>(at) % 2 == 0) << i;
    }
  }
}

}  // namespace
}  // namespace tandem::live_formats_test
