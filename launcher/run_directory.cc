// A directory belongs to whoever holds the lock (flock) of it, which ends with its process however
// that ends. Who sweeps takes the lock first, so it never sweeps what lives; who makes one looks,
// once it has the lock, whether it was swept in between.
#include "launcher/run_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "kernels/core/error.h"

namespace tandem::launcher {
namespace {

namespace fs = std::filesystem;

fs::path base() {
  const char* set = getenv("TMPDIR");
  return set != nullptr && *set != '\0' ? set : "/tmp";
}

std::string prefix() { return "tandem-" + std::to_string(getuid()) + "-run-"; }

// A descriptor with the lock; -1: it is another's, or no directory of this user (any more).
int lock(const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat locked = {}, named = {};
  if (fd >= 0 && fstat(fd, &locked) == 0 && locked.st_uid == getuid() &&
      flock(fd, LOCK_EX | LOCK_NB) == 0 && lstat(path.c_str(), &named) == 0 &&
      named.st_dev == locked.st_dev && named.st_ino == locked.st_ino)
    return fd;
  const int error = errno;
  if (fd >= 0) close(fd);
  errno = error;
  return -1;
}

void sweep(const fs::path& directory) {
  std::error_code failed;
  const std::string start = prefix();
  for (fs::directory_iterator it(directory, failed), end; !failed && it != end;
       it.increment(failed)) {
    const fs::path path = it->path();
    if (path.filename().string().compare(0, start.size(), start) != 0) continue;
    const int fd = lock(path);
    if (fd < 0) continue;
    std::error_code ignored;
    fs::remove_all(path, ignored);
    close(fd);
  }
}

}  // namespace

RunDirectory::RunDirectory() {
  sweep_run_directories();
  while (lock_ < 0) {
    std::string name = (base() / (prefix() + "XXXXXX")).string();
    if (mkdtemp(name.data()) == nullptr)
      throw invalid_request("TMPDIR", name + ": " + std::strerror(errno));
    path_ = name;
    lock_ = lock(path_);
    // Swept before it was locked: another one. Whatever else is wrong will not get better.
    if (lock_ < 0 && errno != EWOULDBLOCK && errno != ENOENT)
      throw invalid_request("TMPDIR", name + ": " + std::strerror(errno));
  }
}

RunDirectory::~RunDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  close(lock_);
}

void sweep_run_directories() {
  sweep(base());
  if (base() != "/tmp") sweep("/tmp");  // of starts without TMPDIR
}

}  // namespace tandem::launcher
