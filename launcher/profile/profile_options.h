// --profile, --profile-steps, --profile-skip.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/profile/profile.h"
#include "launcher/cli.h"
#include "launcher/profile/profile_file.h"

namespace tandem::launcher {

struct ProfileOptions {
  std::string file;  // empty: no profile
  ProfileWindow window;

  void add(CLI::App& app);
  // From here on this process is profiled, until the returned object is gone; null if no profile is
  // wanted. `part`: "" of the process that answers, or "rank0" of another one; then it is in the
  // file's name. Before workers and engines are made. Throws InputError if the file cannot be made.
  std::unique_ptr<ProfileFile> start(const std::string& part,
                                     ProfileFile::When when = ProfileFile::When::kInTime) const;
  // For processes that are ranks.
  std::vector<std::string> flags() const;
};

}  // namespace tandem::launcher
