// Decompresses a body (Content-Encoding: gzip, deflate) piece by piece.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace tandem::server {

class Inflater {
 public:
  enum class Format { kGzip, kDeflate };  // deflate: with zlib's header (RFC 9110, 8.4.1.2) or raw

  explicit Inflater(Format format);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Appends up to `most` bytes to `out` and takes the bytes used off the front of `in`. Returns
  // whether more output may follow without further input. Throws InputError (body): damaged data.
  bool inflate(std::string_view& in, std::string& out, size_t most);
  // The whole body was given. Throws InputError (body): the data is cut.
  void finish() const;

 private:
  struct State;
  void begin(unsigned char first);

  const Format format_;
  std::unique_ptr<State> state_;  // null: no byte has come
};

}  // namespace tandem::server
