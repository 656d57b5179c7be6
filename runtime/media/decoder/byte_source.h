// The file that is read, wherever its bytes are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem::decoder {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Bytes; the file may end before.
  virtual uint64_t size() const = 0;
  // Up to `count` bytes from `at` on; returns how many: 0 at the end, or where it cannot be read.
  virtual size_t read(uint64_t at, char* to, size_t count) = 0;
};

// Bytes in memory, which outlive it.
class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::string_view bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  size_t read(uint64_t at, char* to, size_t count) override {
    return at < bytes_.size() ? bytes_.copy(to, count, at) : 0;
  }

 private:
  std::string_view bytes_;
};

}  // namespace tandem::decoder
