#include "server/http/body/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

namespace tandem::server {
namespace {

std::string unzipped(const std::string& bytes, size_t size) {
  std::string out(size + 1, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, MAX_WBITS + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

TEST(Gzip, IsUndoneByZlib) {
  for (const std::string& text : {std::string(), std::string("a"), std::string(100000, 'x')})
    EXPECT_EQ(unzipped(gzip(text), text.size()), text);
  EXPECT_LT(gzip(std::string(100000, 'x')).size(), 1000u);
}

}  // namespace
}  // namespace tandem::server
