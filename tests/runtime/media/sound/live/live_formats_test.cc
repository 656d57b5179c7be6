#include "runtime/media/sound/live/live_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <random>

#include "base/error.h"
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
  for (const int from : {8000, 24000, 48000}) {
    std::vector<float> in, out, parts;
    for (int i = 0; i < from; ++i)
      in.push_back(static_cast<float>(std::sin(2 * std::numbers::pi * 440 * i / from)));
    Resampler(from, 16000).add(in, out);
    EXPECT_NEAR(static_cast<double>(out.size()), 16000, 40);
    for (size_t i = 100; i < out.size() - 100; ++i)
      ASSERT_NEAR(out[i], std::sin(2 * std::numbers::pi * 440 * static_cast<double>(i) / 16000),
                  0.01)
          << from << " " << i;
    std::mt19937 random(3);
    Resampler piecewise(from, 16000);
    for (size_t at = 0; at < in.size();) {
      const size_t n = std::min<size_t>(1 + random() % 500, in.size() - at);
      piecewise.add(std::span(in).subspan(at, n), parts);
      at += n;
      ASSERT_LE(piecewise.kept(), 100u + 500u);
    }
    EXPECT_EQ(parts, out);
  }
  // What the lower rate cannot carry is not heard as something else.
  std::vector<float> high, out;
  for (int i = 0; i < 24000; ++i)
    high.push_back(static_cast<float>(std::sin(2 * std::numbers::pi * 11000 * i / 24000.0)));
  Resampler(24000, 16000).add(high, out);
  for (size_t i = 100; i < out.size() - 100; ++i) ASSERT_NEAR(out[i], 0, 0.01);
}

}  // namespace
}  // namespace tandem::live_formats_test
