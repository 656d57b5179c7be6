// A private directory for one run: crash records, what MPI leaves lying. Gone with the object;
// those of runs that were killed are swept by the next start of the same user.
#pragma once

#include <filesystem>

namespace tandem::launcher {

class RunDirectory {
 public:
  // <TMPDIR or /tmp>/tandem-<uid>-run-XXXXXX, mode 0700. Throws InputError.
  RunDirectory();
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;  // the directory, locked as long as its owner lives
};

// Removes those whose owners are no more. Never fails.
void sweep_run_directories();

}  // namespace tandem::launcher
