// A directory belongs to whoever holds the lock (flock) of it, which ends with its process however
// that ends. Who sweeps takes the lock first, so it never sweeps what lives; who makes one looks,
// once it has the lock, whether it was swept in between.
#include "launcher/cluster/run_directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"

namespace tandem::launcher {
namespace {

namespace fs = std::filesystem;

fs::path base() {
  const char* set = getenv("TMPDIR");
  return set != nullptr && *set != '\0' ? set : "/tmp";
}

std::string prefix() { return "tandem-" + std::to_string(getuid()) + "-run-"; }

// 0, and `fd` has the lock; or an errno: EWOULDBLOCK: another has it; ENOENT: it is gone.
int lock(const fs::path& path, int& fd) {
  fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return errno;
  struct stat locked = {}, named = {};
  int error = 0;
  if (fstat(fd, &locked) != 0 || flock(fd, LOCK_EX | LOCK_NB) != 0)
    error = errno;
  else if (locked.st_uid != getuid())
    error = EPERM;
  else if (lstat(path.c_str(), &named) != 0 || named.st_dev != locked.st_dev ||
           named.st_ino != locked.st_ino)
    error = ENOENT;
  if (error != 0) close(std::exchange(fd, -1));
  return error;
}

void sweep(const fs::path& directory) {
  std::error_code failed;
  const std::string start = prefix();
  for (fs::directory_iterator it(directory, failed), end; !failed && it != end;
       it.increment(failed)) {
    const fs::path path = it->path();
    if (path.filename().string().compare(0, start.size(), start) != 0) continue;
    int fd = -1;
    if (lock(path, fd) != 0) continue;
    std::error_code ignored;
    fs::remove_all(path, ignored);
    close(fd);
  }
}

}  // namespace

RunDirectory::RunDirectory() {
  sweep_run_directories();
  int error = ENOENT;
  // Swept before it was locked: another one.
  while (error == EWOULDBLOCK || error == ENOENT) {
    std::string name = (base() / (prefix() + "XXXXXX")).string();
    if (mkdtemp(name.data()) == nullptr)
      throw invalid_request("TMPDIR", name + ": " + std::strerror(errno));
    path_ = name;
    error = lock(path_, lock_);
  }
  // Where files cannot be locked nobody sweeps either.
  if (error == 0 || error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS) return;
  std::error_code ignored;
  fs::remove(path_, ignored);
  throw invalid_request("TMPDIR", path_.string() + ": " + std::strerror(error));
}

RunDirectory::~RunDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
  if (lock_ >= 0) close(lock_);
}

void sweep_run_directories() {
  sweep(base());
  if (base() != "/tmp") sweep("/tmp");  // of starts without TMPDIR
}

}  // namespace tandem::launcher
