// The profile of this process, and the file that it becomes.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/profile/profile.h"

namespace tandem::launcher {

// "trace.json" → "trace.rank0.json"; the same file without a part.
std::filesystem::path profile_path(const std::filesystem::path& file, const std::string& part);
// "rank0", or "replica1.rank0" where there are several replicas.
std::string rank_part(int replica, int replicas, int rank);

// Makes the process's profile, and writes it. What is there is replaced as a whole. One at a time;
// everything that is profiled ends before it.
class ProfileFile {
 public:
  enum class When {
    kInTime,  // when the steps are done, when no step has been for a while, and in finish()
    kAtEnd,   // in finish() alone: nothing runs beside what is measured
  };
  // Throws InputError if the file cannot be written.
  ProfileFile(std::filesystem::path file, const ProfileWindow& window, When when);
  ~ProfileFile();
  ProfileFile(const ProfileFile&) = delete;
  ProfileFile& operator=(const ProfileFile&) = delete;

  Profile& profile() { return *profile_; }
  // Writes what there is, unless it is written already, and says where. Throws InputError if it
  // cannot be.
  void finish();
  // Of ranks in processes of their own, before those are ended without notice: waits until their
  // files have come to rest, some seconds at most.
  void wait_for_ranks(const std::vector<std::string>& parts) const;

 private:
  void write();
  void write_in_time();
  bool wait_for_stop(std::chrono::milliseconds most);

  const std::filesystem::path file_;
  const When when_;
  const std::unique_ptr<Profile> profile_;
  const std::filesystem::file_time_type begun_ = std::filesystem::file_time_type::clock::now();
  std::optional<size_t> written_;  // events; of the writing thread, then finish()'s
  Mutex mutex_;
  CondVar changed_;
  bool stop_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace tandem::launcher
