#include "runtime/media/sound/vorbis_headers.h"

#include <ogg/ogg.h>
#include <vorbis/codec.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "base/error.h"

namespace tandem {
namespace {

// Pictures among the comments are the longest.
constexpr uint64_t kMostBytes = uint64_t{16} << 20;
// libsndfile skips at most 4 KiB to find the first page, which has at most 64.
constexpr uint64_t kFirstPageBytes = uint64_t{128} << 10;
// Of all code books together: libvorbis's encoder has at most 19,413 and 87,952.
constexpr int64_t kMostEntries = 1 << 16, kMostValues = 1 << 19;

// What libogg and libvorbis hold for a file.
struct VorbisStream {
  const ReadAt& read;
  const std::string& field;
  uint64_t at = 0;
  ogg_sync_state sync = {};
  ogg_stream_state stream = {};
  vorbis_info info = {};
  vorbis_comment comment = {};
  vorbis_dsp_state decoder = {};

  VorbisStream(const ReadAt& read_, const std::string& field_) : read(read_), field(field_) {
    ogg_sync_init(&sync);
    ogg_stream_init(&stream, 0);
    vorbis_info_init(&info);
    vorbis_comment_init(&comment);
  }
  VorbisStream(const VorbisStream&) = delete;
  VorbisStream& operator=(const VorbisStream&) = delete;
  ~VorbisStream() {
    vorbis_dsp_clear(&decoder);
    vorbis_comment_clear(&comment);
    vorbis_info_clear(&info);
    ogg_stream_clear(&stream);
    ogg_sync_clear(&sync);
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw invalid_request(field, "is no sound that can be read (" + why + ")");
  }
  // False: there is none that ends in the next bytes of the file, up to `most`.
  bool next_page(ogg_page& page, uint64_t most) {
    for (int found; (found = ogg_sync_pageout(&sync, &page)) <= 0;) {
      if (found < 0) continue;  // bytes that are none
      constexpr size_t kPart = 4096;
      char* part = at < most ? ogg_sync_buffer(&sync, kPart) : nullptr;
      const size_t got = part == nullptr ? 0 : read(at, part, kPart);
      if (got == 0) return false;
      ogg_sync_wrote(&sync, static_cast<long>(got));
      at += got;
    }
    return true;
  }
  bool is_vorbis();
  void next_header();
  void check();
};

// Whether `bits` hold a code book that ends within them; counts what it has.
bool skip_book(oggpack_buffer& bits, int64_t& entries, int64_t& values) {
  if (oggpack_read(&bits, 24) != 0x564342) return false;
  const long dim = oggpack_read(&bits, 16), size = oggpack_read(&bits, 24);
  if (dim < 1 || size < 0) return false;
  entries += size;
  values += int64_t{size} * dim;
  if (entries > kMostEntries || values > kMostValues) return false;
  if (oggpack_read(&bits, 1) == 1) {  // lengths of words that do not fall, in runs
    if (oggpack_read(&bits, 5) < 0) return false;
    for (long i = 0; i < size;) {
      const auto width = std::bit_width(static_cast<uint32_t>(size - i));
      const long run = oggpack_read(&bits, static_cast<int>(width));
      if (run < 0 || run > size - i) return false;
      i += run;
    }
  } else {
    const bool sparse = oggpack_read(&bits, 1) != 0;
    for (long i = 0; i < size; ++i)
      if ((!sparse || oggpack_read(&bits, 1) != 0) && oggpack_read(&bits, 5) < 0) return false;
  }
  const long type = oggpack_read(&bits, 4);
  if (type == 0) return true;
  if (type != 1 && type != 2) return false;
  oggpack_adv(&bits, 32 + 32);
  const long width = oggpack_read(&bits, 4) + 1;
  if (oggpack_read(&bits, 1) < 0) return false;
  int64_t count = int64_t{size} * dim;
  if (type == 1) {  // the largest whose power of dim is no more than size
    const auto fits = [&](int64_t base) {
      int64_t power = 1;
      for (long i = 0; i < dim && base > 1 && power <= size; ++i) power *= base;
      return power <= size;
    };
    for (count = 0; fits(count + 1);) ++count;
  }
  for (; count > 0; --count)
    if (oggpack_read(&bits, static_cast<int>(width)) < 0) return false;
  return true;
}

// The code books of a setup header.
bool books_are_small(const ogg_packet& setup) {
  oggpack_buffer bits;
  oggpack_readinit(&bits, setup.packet, static_cast<int>(setup.bytes));
  oggpack_adv(&bits, 7 * 8);
  int64_t entries = 0, values = 0;
  for (long books = oggpack_read(&bits, 8) + 1; books > 0; --books)
    if (!skip_book(bits, entries, values)) return false;
  return true;
}

// Whether the first page is one of Vorbis, as libsndfile sees it.
bool VorbisStream::is_vorbis() {
  ogg_page page;
  constexpr std::string_view kFirst = "\001vorbis";
  if (!next_page(page, kFirstPageBytes) || page.body_len < static_cast<long>(kFirst.size()) ||
      std::memcmp(page.body, kFirst.data(), kFirst.size()) != 0)
    return false;
  ogg_stream_reset_serialno(&stream, ogg_page_serialno(&page));
  if (!ogg_page_bos(&page) || ogg_page_packets(&page) != 1 || ogg_stream_pagein(&stream, &page) < 0)
    fail("a stream of Vorbis does not begin with its first header");
  return true;
}

void VorbisStream::next_header() {
  ogg_packet packet;
  for (int found; (found = ogg_stream_packetout(&stream, &packet)) <= 0;) {
    ogg_page page;
    if (found < 0) fail("a part of Vorbis's headers is missing");
    if (stream.e_o_s != 0 || !next_page(page, kMostBytes))
      fail("Vorbis's headers are cut, or longer than " + std::to_string(kMostBytes) + " bytes");
    if (ogg_page_serialno(&page) == stream.serialno && ogg_stream_pagein(&stream, &page) < 0)
      fail("a page among Vorbis's headers is damaged");
  }
  const bool setup = packet.bytes > 0 && packet.packet[0] == 5;
  if ((setup && !books_are_small(packet)) ||
      vorbis_synthesis_headerin(&info, &comment, &packet) != 0)
    fail("a header of Vorbis is damaged");
}

void VorbisStream::check() {
  if (!is_vorbis()) return;
  for (int i = 0; i < 3; ++i) next_header();
  if (vorbis_synthesis_init(&decoder, &info) != 0) fail("a code book of Vorbis is damaged");
}

}  // namespace

void check_vorbis_headers(const ReadAt& read, const std::string& field) {
  std::array<unsigned char, 10> head{};
  uint64_t begin = 0;
  const auto is = [&](std::string_view magic) {
    return std::memcmp(head.data(), magic.data(), magic.size()) == 0;
  };
  while (read(begin, reinterpret_cast<char*>(head.data()), head.size()) == head.size() &&
         is("ID3")) {
    begin += head.size();
    for (size_t i = 0; i < 4; ++i) begin += uint64_t{head[6 + i] & 127U} << (7 * (3 - i));
  }
  if (!is("OggS")) return;
  VorbisStream stream(read, field);
  if (begin > 0) stream.fail("an Ogg stream behind an ID3 tag");
  stream.check();
}

}  // namespace tandem
