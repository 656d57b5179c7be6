#include "launcher/run_directory.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>

#include "kernels/core/error.h"

namespace tandem::launcher {
namespace {

namespace fs = std::filesystem;

std::string prefix() { return "tandem-run-" + std::to_string(getuid()) + "-"; }

// Directories of this user whose process is no more.
void sweep(const fs::path& base) {
  std::error_code ignored;
  const std::string start = prefix();
  for (const auto& entry : fs::directory_iterator(base, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.compare(0, start.size(), start) != 0) continue;
    int pid = 0;
    std::from_chars(name.data() + start.size(), name.data() + name.size(), pid);
    struct stat info = {};
    if (pid <= 0 || kill(pid, 0) == 0 || errno != ESRCH) continue;
    if (lstat(entry.path().c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == getuid())
      fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

RunDirectory::RunDirectory() {
  const char* set = getenv("TMPDIR");
  const fs::path base = set && *set ? set : "/tmp";
  sweep(base);
  std::string name = (base / (prefix() + std::to_string(getpid()) + "-XXXXXX")).string();
  if (mkdtemp(name.data()) == nullptr)
    throw invalid_request("TMPDIR", name + ": " + std::strerror(errno));
  path_ = name;
}

RunDirectory::~RunDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace tandem::launcher
