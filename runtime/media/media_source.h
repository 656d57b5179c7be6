// What is to be decoded: the bytes of a file of sound or of an image, in memory or on a disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace tandem {

// A file that is open for reading. It has no position: whoever reads says where. Copies share the
// descriptor, which is closed with the last of them. Immutable; usable from any thread.
class MediaSource {
 public:
  // `bytes` are copied into memory that has a descriptor and no name.
  static MediaSource of_bytes(std::string_view bytes, const std::string& field);
  // A file of this host. What cannot be read twice (a pipe, a terminal) is read to its end, at most
  // `most` bytes, into a file without a name; "-" is standard input. Throws InputError (`field`):
  // there is no such file, it is a directory, cannot be read, or is longer.
  static MediaSource open(const std::filesystem::path& path, const std::string& field,
                          uint64_t most = kMostStreamBytes);
  // Takes over `fd`, which is open for reading on a regular file.
  static MediaSource of_descriptor(int fd, uint64_t size);

  static constexpr uint64_t kMostStreamBytes = uint64_t{16} << 30;

  // As long as this object, or a copy of it, lives.
  int fd() const;
  // Bytes when it was opened. A file of this host may have fewer by now.
  uint64_t size() const;
  // All of them. Throws InputError (`field`): there are more than `most`, or they cannot be read.
  std::string bytes(const std::string& field, uint64_t most) const;

 private:
  struct State;
  explicit MediaSource(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;
};

// A file without a name, which is being written: bodies of HTTP requests, standard input. It is
// gone when nobody has it open any more, however the process ends. Used by one thread.
class UnlinkedFile {
 public:
  // In $TMPDIR, else /var/tmp, which is a disk where /tmp is memory, else /tmp. Throws InputError
  // (kUnavailable, `field`) where none of them takes a file.
  explicit UnlinkedFile(std::string field);
  UnlinkedFile(UnlinkedFile&& other) noexcept;
  UnlinkedFile& operator=(UnlinkedFile&&) = delete;
  ~UnlinkedFile();

  // Throws InputError (kUnavailable, `field`): the disk is full.
  void append(std::string_view bytes);
  uint64_t size() const { return size_; }
  // What was written, to be read, and to be changed by nobody.
  MediaSource finish() &&;

 private:
  std::string field_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace tandem
