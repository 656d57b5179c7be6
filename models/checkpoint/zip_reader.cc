// A zip archive is read from its end:
//   {local header, data}... | central directory | [zip64 end record, zip64 locator] | end record
// The central directory is the truth about sizes and offsets; of the local headers only the lengths
// of their variable fields are used. All numbers are little-endian.
#include "models/checkpoint/zip_reader.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/strings/printable.h"

namespace tandem {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kCentralHeader = 0x02014b50;
constexpr uint32_t kEnd = 0x06054b50, kEnd64 = 0x06064b50, kEnd64Locator = 0x07064b50;
constexpr size_t kEndSize = 22, kCentralSize = 46, kLocalSize = 30, kLocatorSize = 20,
                 kEnd64Size = 56;

class Archive {
 public:
  Archive(std::string_view data, const std::string& file) : data_(data), file_(file) {}

  std::map<std::string, std::string_view> read() {
    find_directory();
    std::map<std::string, std::string_view> entries;
    uint64_t at = directory_;
    for (uint64_t i = 0; i < count_; ++i) {
      auto [name, content] = read_entry(at);
      if (!name.empty() && name.back() == '/') continue;  // a folder
      if (!entries.emplace(name, content).second)
        fail("entry " + in_quotes(name) + " appears twice");
    }
    return entries;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw invalid_model(file_, "zip archive: " + message);
  }

  template <class T>
  T number(uint64_t at) const {
    if (at > data_.size() || data_.size() - at < sizeof(T)) fail("truncated");
    T value = 0;
    for (size_t i = sizeof(T); i-- > 0;)
      value = static_cast<T>(value << 8 | static_cast<unsigned char>(data_[at + i]));
    return value;
  }
  uint16_t u16(uint64_t at) const { return number<uint16_t>(at); }
  uint32_t u32(uint64_t at) const { return number<uint32_t>(at); }
  uint64_t u64(uint64_t at) const { return number<uint64_t>(at); }

  std::string_view bytes(uint64_t at, uint64_t size, const char* what) const {
    if (at > data_.size() || size > data_.size() - at)
      fail(std::string(what) + " lies outside of the file: truncated?");
    return data_.substr(static_cast<size_t>(at), static_cast<size_t>(size));
  }

  // Sets directory_, directory_size_ and count_ from the end record, or its 64-bit form.
  void find_directory() {
    std::optional<size_t> end;
    const size_t lowest = data_.size() > kEndSize + 0xffff ? data_.size() - kEndSize - 0xffff : 0;
    for (size_t at = data_.size() < kEndSize ? 0 : data_.size() - kEndSize + 1; at-- > lowest;) {
      // The record ends with a comment that reaches the end of the file.
      if (u32(at) == kEnd && at + kEndSize + u16(at + 20) == data_.size()) {
        end = at;
        break;
      }
    }
    if (!end) fail("no end record: truncated, or not a zip archive");
    count_ = u16(*end + 10);
    uint64_t size = u32(*end + 12);
    directory_ = u32(*end + 16);
    uint64_t limit = *end;  // the directory lies before this
    if (*end >= kLocatorSize && u32(*end - kLocatorSize) == kEnd64Locator) {
      limit = u64(*end - kLocatorSize + 8);
      bytes(limit, kEnd64Size, "the zip64 end record");
      if (u32(limit) != kEnd64) fail("no zip64 end record where its locator points");
      count_ = u64(limit + 32);
      size = u64(limit + 40);
      directory_ = u64(limit + 48);
    }
    if (directory_ > limit || size > limit - directory_)
      fail("the central directory lies outside of the file");
    if (count_ > size / kCentralSize)
      fail(std::to_string(count_) + " entries in a central directory of " + std::to_string(size) +
           " bytes");
    directory_end_ = directory_ + size;
  }

  // The entry at `at` of the central directory; moves `at` to the next one.
  std::pair<std::string, std::string_view> read_entry(uint64_t& at) const {
    if (directory_end_ - at < kCentralSize || u32(at) != kCentralHeader)
      fail("the central directory is damaged");
    const uint16_t flags = u16(at + 8), method = u16(at + 10);
    uint64_t packed = u32(at + 20), size = u32(at + 24), offset = u32(at + 42);
    const uint64_t name_size = u16(at + 28), extra_size = u16(at + 30), note_size = u16(at + 32);
    const uint64_t next = at + kCentralSize + name_size + extra_size + note_size;
    if (next > directory_end_) fail("the central directory is damaged");
    const std::string name(bytes(at + kCentralSize, name_size, "a name"));
    read_zip64(bytes(at + kCentralSize + name_size, extra_size, "an extra field"), name, size,
               packed, offset);
    at = next;
    if ((flags & 1) != 0) fail("entry " + in_quotes(name) + " is encrypted");
    if (method != 0 || packed != size)
      fail("entry " + in_quotes(name) + " is compressed (method " + std::to_string(method) +
           "), only stored entries can be mapped");
    const uint64_t limit = directory_;
    if (offset > limit || limit - offset < kLocalSize || u32(offset) != kLocalHeader)
      fail("entry " + in_quotes(name) + " has no header at offset " + std::to_string(offset));
    const uint64_t begin =
        offset + kLocalSize + uint64_t{u16(offset + 26)} + uint64_t{u16(offset + 28)};
    if (begin > limit || size > limit - begin)
      fail("entry " + in_quotes(name) + " of " + std::to_string(size) + " bytes at offset " +
           std::to_string(offset) + " lies outside of the file: truncated?");
    return {name, data_.substr(static_cast<size_t>(begin), static_cast<size_t>(size))};
  }

  // 64-bit values of the extra field, for those of the fixed fields that are all ones.
  void read_zip64(std::string_view extra, const std::string& name, uint64_t& size, uint64_t& packed,
                  uint64_t& offset) const {
    const auto get = [&](size_t i, size_t n) {
      uint64_t v = 0;
      for (size_t k = n; k-- > 0;) v = v << 8 | static_cast<unsigned char>(extra[i + k]);
      return v;
    };
    for (size_t i = 0; extra.size() - i >= 4;) {
      const uint64_t id = get(i, 2), length = get(i + 2, 2);
      i += 4;
      if (length > extra.size() - i)
        fail("entry " + in_quotes(name) + " has a damaged extra field");
      if (id == 1) {
        size_t from = i;
        const size_t end = i + static_cast<size_t>(length);
        for (uint64_t* field : {&size, &packed, &offset}) {
          if (*field != 0xffffffffu) continue;
          if (end - from < 8) fail("entry " + in_quotes(name) + " has a damaged zip64 field");
          *field = get(from, 8);
          from += 8;
        }
        return;
      }
      i += static_cast<size_t>(length);
    }
  }

  std::string_view data_;
  const std::string& file_;
  uint64_t directory_ = 0, directory_end_ = 0, count_ = 0;
};

}  // namespace

std::map<std::string, std::string_view> read_zip(std::string_view data, const std::string& file) {
  return Archive(data, file).read();
}

}  // namespace tandem
