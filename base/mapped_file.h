// A file mapped read-only. Its pages come from the page cache and are shared by all processes that
// map the same checkpoint. Untouched pages are never read from the disk.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace tandem {

// Throws InputError if `text` is a git-lfs pointer, which git leaves in place of a large file that
// it has not fetched.
void refuse_lfs_pointer(std::string_view text, const std::filesystem::path& file);

class MappedFile {
 public:
  // Throws InputError naming the file if it cannot be opened, is not a regular file, is
  // empty, or is a git-lfs pointer.
  static std::shared_ptr<MappedFile> open(const std::filesystem::path& file);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Returns the pages to the system; a later access reads them again.
  void drop_pages() const;
  // Asks the system to read the pages of a piece of the file, once for every 8 MiB. Does not wait.
  void read_ahead(size_t begin, size_t bytes);
  std::string_view text() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  MappedFile(const std::byte* data, size_t size);

  const std::byte* data_;
  size_t size_;
  std::vector<bool> asked_for_;  // by read_ahead()
};

}  // namespace tandem
