#include "server/http/body/gzip.h"

#include <zlib.h>

#include <limits>
#include <new>

#include "base/check.h"

namespace tandem::server {

std::string gzip(std::string_view bytes) {
  TANDEM_CHECK(bytes.size() < std::numeric_limits<uInt>::max());
  constexpr int kGzip = 16;  // added to the size of the window: gzip's header and trailer
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzip, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK)
    throw std::bad_alloc();
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  // (zlib writes nothing to its input.)
  stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  TANDEM_CHECK(result == Z_STREAM_END);
  return out;
}

}  // namespace tandem::server
