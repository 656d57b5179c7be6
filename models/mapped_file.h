// A file mapped read-only. Its pages come from the page cache and are shared by all processes that
// map the same checkpoint; what nobody touches is never read from the disk.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>

namespace tandem {

class MappedFile {
 public:
  // Throws InputError naming the file if it cannot be opened, is not a regular file, or is empty.
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& file);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Gives the pages back to the system; a later access reads them again.
  void drop_pages() const;
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  MappedFile(const std::byte* data, size_t size) : data_(data), size_(size) {}

  const std::byte* data_;
  size_t size_;
};

}  // namespace tandem
