// A private directory for one run: crash records, what MPI leaves lying. Gone with the object;
// those of runs that were killed are swept by the next run of the same user.
#pragma once

#include <filesystem>

namespace tandem::launcher {

class RunDirectory {
 public:
  // <TMPDIR or /tmp>/tandem-run-<uid>-<pid>-XXXXXX, mode 0700. Throws InputError.
  RunDirectory();
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tandem::launcher
