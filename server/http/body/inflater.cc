#include "server/http/body/inflater.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "base/check.h"
#include "base/error.h"

namespace tandem::server {
namespace {

constexpr int kWindowBits = 15, kGzipHeader = 16;

[[noreturn]] void fail(const std::string& what) { throw invalid_request("body", what); }

}  // namespace

struct Inflater::State {
  explicit State(int window_bits) { TANDEM_CHECK_EQ(inflateInit2(&stream, window_bits), Z_OK); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { inflateEnd(&stream); }

  z_stream stream{};
  bool ended = false;  // at the end of a member of gzip, or of the stream
};

Inflater::Inflater(Format format) : format_(format) {}
Inflater::~Inflater() = default;

void Inflater::begin(unsigned char first) {
  int bits = kWindowBits + kGzipHeader;
  if (format_ == Format::kDeflate) {
    // A header of zlib begins with the method, 8, and the window's size. No compressor begins raw
    // data so.
    const bool header = (first & 0x0f) == 8 && (first >> 4) <= 7;
    bits = header ? kWindowBits : -kWindowBits;
  }
  state_ = std::make_unique<State>(bits);
}

bool Inflater::inflate(std::string_view& in, std::string& out, size_t most) {
  if (state_ == nullptr) {
    if (in.empty()) return false;
    begin(static_cast<unsigned char>(in.front()));
  }
  State& s = *state_;
  if (s.ended) {
    if (in.empty()) return false;
    if (format_ != Format::kGzip) fail("has bytes behind its compressed data");
    inflateReset(&s.stream);  // a further member (RFC 1952, 2.2)
    s.ended = false;
  }
  const size_t before = out.size();
  out.resize(before + most);
  const size_t given = std::min<size_t>(in.size(), std::numeric_limits<uInt>::max());
  s.stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  s.stream.avail_in = static_cast<uInt>(given);
  s.stream.next_out = reinterpret_cast<Bytef*>(out.data() + before);
  s.stream.avail_out = static_cast<uInt>(most);
  const int result = ::inflate(&s.stream, Z_NO_FLUSH);
  in.remove_prefix(given - s.stream.avail_in);
  out.resize(out.size() - s.stream.avail_out);
  s.ended = result == Z_STREAM_END;
  // Z_BUF_ERROR: there is nothing to do without more input.
  if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
    fail(std::string("is no ") + (format_ == Format::kGzip ? "gzip" : "deflate") +
         " data, which its Content-Encoding says it is");
  return s.stream.avail_out == 0 && !s.ended;
}

void Inflater::finish() const {
  if (state_ != nullptr && !state_->ended) fail("ends within its compressed data");
}

}  // namespace tandem::server
