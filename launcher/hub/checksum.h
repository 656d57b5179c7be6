// What a file's entity tag at the hub says about its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace tandem::hub {

// Without a weak tag's W/ and the quotes.
std::string plain_etag(std::string_view header);

// The checksum behind a tag: SHA-256 for large files (64 hexadecimal digits), git's SHA-1 of a blob
// for small ones (40). Any other tag tells nothing.
class Checksum {
 public:
  Checksum(std::string etag, uint64_t size);
  ~Checksum();
  bool known() const { return digest_ != nullptr; }
  void update(const char* bytes, size_t count);
  void restart();
  // Whether the bytes so far are the file's; true if nothing is known. Once, before restart().
  bool matches();

 private:
  struct Digest;
  std::string etag_;
  uint64_t size_;
  std::unique_ptr<Digest> digest_;
};

}  // namespace tandem::hub
