// Ogg Vorbis whose headers are damaged, or made to hurt: clear errors, and no memory is lost.
#include "runtime/media/sound/vorbis_headers.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <ogg/ogg.h>
#include <sndfile.h>

#include <algorithm>
#include <bit>
#include <random>

#include "base/error.h"
#include "runtime/media/sound/audio_file.h"
#include "tests/support/files/files.h"
#include "tests/support/media/sounds.h"

namespace tandem {
namespace {

struct VorbisPacket {
  std::string bytes;
  ogg_int64_t granule;
};
using Packets = std::vector<VorbisPacket>;

// Three headers, then sound, as libsndfile writes them.
Packets vorbis_packets(int channels = 1) {
  const test::TempDir dir;
  SF_INFO info{};
  info.samplerate = 16000;
  info.channels = channels;
  info.format = SF_FORMAT_OGG | SF_FORMAT_VORBIS;
  SNDFILE* file = sf_open((dir / "sound").c_str(), SFM_WRITE, &info);
  const std::vector<float> sound = testing::two_tones(int64_t{3000} * channels);
  sf_writef_float(file, sound.data(), 3000);
  sf_close(file);
  const std::string bytes = test::read_file(dir / "sound");
  ogg_sync_state sync;
  ogg_sync_init(&sync);
  bytes.copy(ogg_sync_buffer(&sync, static_cast<long>(bytes.size())), bytes.size());
  ogg_sync_wrote(&sync, static_cast<long>(bytes.size()));
  ogg_stream_state stream;
  ogg_stream_init(&stream, 0);
  Packets out;
  for (ogg_page page; ogg_sync_pageout(&sync, &page) == 1;) {
    if (out.empty()) ogg_stream_reset_serialno(&stream, ogg_page_serialno(&page));
    ogg_stream_pagein(&stream, &page);
    for (ogg_packet p; ogg_stream_packetout(&stream, &p) == 1;)
      out.push_back(
          {std::string(reinterpret_cast<const char*>(p.packet), static_cast<size_t>(p.bytes)),
           p.granulepos});
  }
  ogg_stream_clear(&stream);
  ogg_sync_clear(&sync);
  return out;
}

// A page each, with good checksums.
std::string ogg_file(Packets packets) {
  ogg_stream_state stream;
  ogg_stream_init(&stream, 77);
  std::string out;
  for (size_t i = 0; i < packets.size(); ++i) {
    ogg_packet p{};
    p.packet = reinterpret_cast<unsigned char*>(packets[i].bytes.data());
    p.bytes = static_cast<long>(packets[i].bytes.size());
    p.b_o_s = i == 0;
    p.e_o_s = i + 1 == packets.size();
    p.granulepos = packets[i].granule;
    p.packetno = static_cast<ogg_int64_t>(i);
    ogg_stream_packetin(&stream, &p);
    for (ogg_page page; ogg_stream_flush(&stream, &page) != 0;) {
      out.append(reinterpret_cast<const char*>(page.header), static_cast<size_t>(page.header_len));
      out.append(reinterpret_cast<const char*>(page.body), static_cast<size_t>(page.body_len));
    }
  }
  ogg_stream_clear(&stream);
  return out;
}

// How many samples there are, or the error.
std::string outcome(const std::string& bytes) {
  try {
    AudioFile file = AudioFile::of_bytes(bytes, "audio", 16000, {.seconds = 60});
    size_t count = 0;
    for (std::vector<float> part; file.read(part);) count += part.size();
    return std::to_string(count);
  } catch (const InputError& error) {
    EXPECT_EQ(error.param(), "audio");
    return error.what();
  }
}

void expect_error(const Packets& packets, const std::string& words) {
  const std::string got = outcome(ogg_file(packets));
  EXPECT_NE(got.find("audio: is no sound that can be read ("), std::string::npos) << got;
  EXPECT_NE(got.find(words), std::string::npos) << got;
}

TEST(VorbisHeaders, GoodFiles) {
  for (const int channels : {1, 2, 6})
    EXPECT_EQ(outcome(ogg_file(vorbis_packets(channels))), "3000");
  // A picture among the comments, of many pages.
  Packets packets = vorbis_packets();
  std::string& comments = packets[1].bytes;
  const size_t vendor = 4 + static_cast<unsigned char>(comments[7]);
  comments.resize(7 + vendor);
  comments += testing::little_endian(1, 4) + testing::little_endian(500'004, 4) +
              "PIC=" + std::string(500'000, 'x') + "\1";
  EXPECT_EQ(outcome(ogg_file(packets)), "3000");
  // Of a file on the disk too.
  const test::TempDir dir;
  AudioFile file = AudioFile::open(dir.write("a.ogg", ogg_file(packets)), "audio", 16000);
  size_t count = 0;
  for (std::vector<float> part; file.read(part);) count += part.size();
  EXPECT_EQ(count, 3000U);
  packets[1].bytes[0] = 4;
  EXPECT_THROW(AudioFile::open(dir.write("b.ogg", ogg_file(packets)), "audio", 16000), InputError);
}

TEST(VorbisHeaders, HeadersThatAreCutMissingOrOthers) {
  const Packets whole = vorbis_packets();
  for (size_t header = 0; header < 3; ++header) {
    SCOPED_TRACE(header);
    for (size_t size = header == 0 ? 7 : 0; size < whole[header].bytes.size(); ++size) {
      Packets packets = whole;
      packets[header].bytes.resize(size);
      expect_error(packets, "a header of Vorbis is damaged");
    }
    Packets packets = whole;
    packets.resize(header + 1);
    if (header < 2) expect_error(packets, "Vorbis's headers are cut");
    packets = whole;
    packets.insert(packets.begin() + static_cast<long>(header), packets[header]);
    if (header < 2) expect_error(packets, "a header of Vorbis is damaged");
    packets = whole;
    packets.erase(packets.begin() + static_cast<long>(header));
    if (header > 0) expect_error(packets, "a header of Vorbis is damaged");
  }
  Packets packets = whole;
  std::swap(packets[1], packets[2]);
  expect_error(packets, "a header of Vorbis is damaged");
  // The page with the comments is lost.
  const std::string bytes = ogg_file(whole);
  const size_t second = bytes.find("OggS", 4), third = bytes.find("OggS", second + 4);
  EXPECT_NE(outcome(bytes.substr(0, second) + bytes.substr(third)).find("headers is missing"),
            std::string::npos);
  packets = whole;
  packets[1].bytes.resize(17 << 20);
  expect_error(packets, "longer than 16777216 bytes");
  EXPECT_NE(outcome(std::string("ID3\4\0\0\0\0\0\3...", 13) + bytes).find("behind an ID3 tag"),
            std::string::npos);
}

// libsndfile alone loses 5.8 KB and more of each that it refuses.
TEST(VorbisHeaders, NoMemoryIsLost) {
  std::mt19937 random(5);
  const Packets whole = vorbis_packets();
  int errors = 0;
  const auto damage = [&](int files) {
    for (int i = 0; i < files; ++i) {
      Packets packets = whole;
      std::string& header = packets[random() % 3].bytes;
      for (int k = 0; k < 3; ++k) header[random() % header.size()] = static_cast<char>(random());
      std::string bytes = ogg_file(packets);
      if (i % 4 == 0) bytes[random() % 4000] ^= 1;  // a wrong checksum
      if (outcome(bytes).find("audio: ") == 0) ++errors;
    }
  };
  damage(100);
  errors = 0;
  const size_t before = mallinfo2().uordblks;
  damage(2000);
  EXPECT_LT(mallinfo2().uordblks, before + (size_t{1} << 18));
  EXPECT_GT(errors, 1000);
}

// Bits of a setup header: `books` alike, of words that are all as long as they must be, and what
// else libvorbis wants.
std::string setup_header(int books, long dim, long entries, bool values) {
  oggpack_buffer bits;
  oggpack_writeinit(&bits);
  const auto put = [&](unsigned long value, int count) { oggpack_write(&bits, value, count); };
  for (const char c : std::string("\5vorbis")) put(static_cast<unsigned char>(c), 8);
  put(static_cast<unsigned long>(books), 8);
  for (int i = 0; i <= books; ++i) {  // the first is one that a residue takes
    const bool first = i == 0;
    const auto size = first ? 2UL : static_cast<unsigned long>(entries);
    put(0x564342, 24);
    put(first ? 1 : static_cast<unsigned long>(dim), 16);
    put(size, 24);
    const int width = static_cast<int>(std::bit_width(size));
    put(1, 1);                                                   // in order
    put(static_cast<unsigned long>(std::max(width - 2, 0)), 5);  // the bits of each word, less one
    put(size, width);
    put(!first && values ? 1 : 0, 4);
    if (first || !values) continue;
    put(0, 32);
    put(0, 32);
    put(0, 4);
    put(0, 1);
    if (dim > 0) put(0, 1);
  }
  for (const int count : {6, 16, 6}) put(0, count);  // no times; a floor
  put(1, 16);
  put(0, 5);
  put(0, 2);
  put(4, 4);
  for (const int count : {6, 16, 24, 24, 24, 6, 8, 3, 1}) put(0, count);  // a residue
  for (const int count : {6, 16, 1, 1, 2, 8, 8, 8}) put(0, count);        // a mapping
  for (const int count : {6, 1, 16, 16, 8}) put(0, count);                // a mode
  put(1, 1);
  const std::string out(reinterpret_cast<const char*>(oggpack_get_buffer(&bits)),
                        static_cast<size_t>(oggpack_bytes(&bits)));
  oggpack_writeclear(&bits);
  return out;
}

TEST(VorbisHeaders, CodeBooksThatHurt) {
  Packets packets = vorbis_packets();
  packets.resize(4);
  packets[2].bytes = setup_header(1, 1, 4, false);  // nothing wrong: there is little sound in it
  const std::string got = outcome(ogg_file(packets));
  EXPECT_EQ(got.find("header"), std::string::npos) << got;
  struct Books {
    int count;
    long dim, entries;
    bool values;
  };
  for (const Books& books : {Books{1, 1, 1L << 22, false},  // 50 MB on the stack
                             {255, 1, 1L << 19, false},     // gigabytes, and seconds to sort them
                             {255, 65535, 128, true},       // gigabytes of values
                             {1, 0, 1, true}}) {            // a loop without an end
    SCOPED_TRACE(std::to_string(books.dim) + " x " + std::to_string(books.entries));
    packets[2].bytes = setup_header(books.count, books.dim, books.entries, books.values);
    EXPECT_LT(packets[2].bytes.size(), 10'000U);
    expect_error(packets, "a header of Vorbis is damaged");
  }
}

}  // namespace
}  // namespace tandem
