// Compressed bodies.
#pragma once

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace tandem::test {

enum class Wrapper { kGzip = 15 + 16, kZlib = 15, kRaw = -15 };

inline std::string compress(const std::string& text, Wrapper wrapper = Wrapper::kGzip) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, 9, Z_DEFLATED, static_cast<int>(wrapper), 8, Z_DEFAULT_STRATEGY),
            Z_OK);
  std::string out(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}

}  // namespace tandem::test
