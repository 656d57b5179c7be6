// mmap, with errors that name the file.
#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tandem {
namespace {

// Closes on scope exit: a mapping does not need its descriptor.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

constexpr size_t kGranule = size_t{8} << 20;  // of read_ahead()

}  // namespace

void refuse_lfs_pointer(std::string_view text, const std::filesystem::path& file) {
  if (!text.starts_with("version https://git-lfs.")) return;
  throw invalid_model(file.string(),
                      "is a git-lfs pointer, not the file itself: run `git lfs pull` in " +
                          (file.has_parent_path() ? file.parent_path() : ".").string());
}

std::shared_ptr<MappedFile> MappedFile::open(const std::filesystem::path& file) {
  const auto failed = [&](const char* what) {
    const int error = errno;
    return invalid_model(file.string(), std::string(what) + ": " + std::strerror(error));
  };
  // O_NONBLOCK: opening a named pipe must not wait for a writer.
  const Descriptor d{::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (d.fd < 0) throw failed("cannot be opened");
  struct stat status {};
  if (::fstat(d.fd, &status) != 0) throw failed("cannot be examined");
  if (!S_ISREG(status.st_mode)) throw invalid_model(file.string(), "is not a regular file");
  if (status.st_size <= 0) throw invalid_model(file.string(), "is empty");
  const auto size = static_cast<size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, d.fd, 0);
  if (data == MAP_FAILED) throw failed("cannot be mapped");
  ::madvise(data, size, MADV_SEQUENTIAL);  // a hint: each tensor is read once, front to back
  std::shared_ptr<MappedFile> mapped(new MappedFile(static_cast<const std::byte*>(data), size));
  refuse_lfs_pointer(mapped->text(), file);
  return mapped;
}

MappedFile::MappedFile(const std::byte* data, size_t size)
    : data_(data), size_(size), asked_for_((size + kGranule - 1) / kGranule) {}

MappedFile::~MappedFile() { ::munmap(const_cast<std::byte*>(data_), size_); }

void MappedFile::read_ahead(size_t begin, size_t bytes) {
  if (begin >= size_ || bytes == 0) return;
  const size_t end = begin + std::min(bytes, size_ - begin);
  for (size_t i = begin / kGranule; i * kGranule < end; ++i) {
    if (asked_for_[i]) continue;
    asked_for_[i] = true;
    ::madvise(const_cast<std::byte*>(data_) + i * kGranule,
              std::min(kGranule, size_ - i * kGranule), MADV_WILLNEED);  // a hint, too
  }
}

void MappedFile::drop_pages() const {
  ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);  // read-only: nothing is lost
}

}  // namespace tandem
