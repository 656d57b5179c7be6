// Files that are decoded: where their bytes are kept until they are, and who closes them.
#include "runtime/media/media_source.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings/printable.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

constexpr size_t kPiece = size_t{1} << 16;

InputError no_room(const std::string& field, const std::string& why) {
  return InputError(ErrorKind::kUnavailable, field + ": cannot be kept until it is decoded: " + why,
                    field);
}

InputError too_long(const std::string& field, uint64_t bytes, uint64_t most) {
  return InputError(ErrorKind::kResource,
                    field + ": has " + std::to_string(bytes) + " bytes, more than the " +
                        std::to_string(most) + " that are taken",
                    field);
}

void write_all(int fd, std::string_view bytes, const std::string& field) {
  while (!bytes.empty()) {
    const ssize_t count = write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw no_room(field, std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

// The same file, open for reading alone, so that who gets the descriptor cannot change it. `fd` is
// closed. (Without /proc it stays as it is.)
int read_only(int fd) {
  const int out = ::open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY | O_CLOEXEC);
  if (out < 0) return fd;
  close(fd);
  return out;
}

int open_unlinked(const char* folder) {
  const int fd = ::open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
  // A file system that makes no files without names.
  std::string name = std::string(folder) + "/tandem-XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) unlink(name.c_str());
  return named;
}

}  // namespace

struct MediaSource::State {
  int fd;
  uint64_t size;

  State(int fd_, uint64_t size_) : fd(fd_), size(size_) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { close(fd); }
};

MediaSource MediaSource::of_descriptor(int fd, uint64_t size) {
  return MediaSource(std::make_shared<State>(fd, size));
}

MediaSource MediaSource::of_bytes(std::string_view bytes, const std::string& field) {
  const int fd = memfd_create("tandem-media", MFD_CLOEXEC);
  if (fd < 0) {
    UnlinkedFile file(field);
    file.append(bytes);
    return std::move(file).finish();
  }
  try {
    write_all(fd, bytes, field);
  } catch (...) {
    close(fd);
    throw;
  }
  return of_descriptor(read_only(fd), bytes.size());
}

MediaSource MediaSource::open(const fs::path& path, const std::string& field, uint64_t most) {
  const std::string name = path == "-" ? "standard input" : in_quotes(path.string());
  const int fd = path == "-" ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                             : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    throw invalid_request(field, name + (errno == ENOENT ? " does not exist" : " cannot be read"));
  MediaSource opened = of_descriptor(fd, 0);
  struct stat status = {};
  if (fstat(fd, &status) != 0) throw invalid_request(field, name + " cannot be read");
  if (S_ISREG(status.st_mode) && (path != "-" || lseek(fd, 0, SEEK_CUR) == 0))
    return of_descriptor(fcntl(fd, F_DUPFD_CLOEXEC, 3), static_cast<uint64_t>(status.st_size));
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode) && !S_ISSOCK(status.st_mode) &&
      !(S_ISCHR(status.st_mode) && path == "-"))
    throw invalid_request(field, name + " is not a file");
  UnlinkedFile file(field);
  for (std::vector<char> piece(kPiece);;) {
    const ssize_t count = read(fd, piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw invalid_request(field, name + " cannot be read");
    if (count == 0) return std::move(file).finish();
    if (file.size() + static_cast<uint64_t>(count) > most)
      throw too_long(field, file.size() + static_cast<uint64_t>(count), most);
    file.append({piece.data(), static_cast<size_t>(count)});
  }
}

int MediaSource::fd() const { return state_->fd; }
uint64_t MediaSource::size() const { return state_->size; }

std::string MediaSource::bytes(const std::string& field, uint64_t most) const {
  if (size() > most) throw too_long(field, size(), most);
  std::string out(size(), '\0');
  for (size_t got = 0; got < out.size();) {
    const ssize_t count = pread(fd(), out.data() + got, out.size() - got, static_cast<off_t>(got));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) throw invalid_request(field, "cannot be read to its end");
    got += static_cast<size_t>(count);
  }
  return out;
}

UnlinkedFile::UnlinkedFile(std::string field) : field_(std::move(field)) {
  const char* const chosen = std::getenv("TMPDIR");
  for (const char* folder : {chosen, "/var/tmp", "/tmp"}) {
    if (folder == nullptr || *folder == '\0') continue;
    fd_ = open_unlinked(folder);
    if (fd_ >= 0) return;
  }
  throw no_room(field_, "no file can be made in TMPDIR, /var/tmp or /tmp");
}

UnlinkedFile::UnlinkedFile(UnlinkedFile&& other) noexcept
    : field_(std::move(other.field_)), fd_(std::exchange(other.fd_, -1)), size_(other.size_) {}

UnlinkedFile::~UnlinkedFile() {
  if (fd_ >= 0) close(fd_);
}

void UnlinkedFile::append(std::string_view bytes) {
  write_all(fd_, bytes, field_);
  size_ += bytes.size();
}

MediaSource UnlinkedFile::finish() && {
  return MediaSource::of_descriptor(read_only(std::exchange(fd_, -1)), size_);
}

}  // namespace tandem
