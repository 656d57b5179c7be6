// The folder of one repository in HuggingFace's cache, as huggingface_hub lays it out:
//
//   <cache>/models--org--name/refs/<revision>            the commit, as text
//                             blobs/<entity tag>         what files hold, <entity tag>.incomplete
//                             snapshots/<commit>/<file>  links into blobs/
//                             .no_exist/<commit>/<file>  files that the commit lacks
//   <cache>/.locks/models--org--name/<entity tag>.lock
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "launcher/hub/names.h"

namespace tandem::hub {

struct Interrupted {};

// What goes on around a download.
struct Hooks {
  std::function<bool()> stop;  // asked again and again; true: end by throwing Interrupted
  std::function<void(const std::string&)> warn;
  void check() const {
    if (stop && stop()) throw Interrupted();
  }
};

// Of all processes that use the cache, this one writes. flock(2), as huggingface_hub's.
class FileLock {
 public:
  FileLock(const std::filesystem::path& file, const Hooks& hooks);
  ~FileLock();
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  bool try_lock(const std::filesystem::path& file, const Hooks& hooks);
  int fd_ = -1;
};

class Cache {
 public:
  Cache(std::filesystem::path root, const std::string& repository);

  const std::filesystem::path& root() const { return root_; }
  std::filesystem::path snapshot(const std::string& commit) const;
  std::filesystem::path blob(const std::string& etag) const;
  std::filesystem::path lock_file(const std::string& etag) const;
  bool has(const std::string& commit, const std::string& file) const;
  // What the revision was when it was last seen.
  std::optional<std::string> commit_of(const std::string& revision) const;

  // The others throw InputError if the cache cannot be written.
  void make_folders(const std::string& commit) const;
  void remember(const std::string& revision, const std::string& commit) const;
  void link(const std::string& commit, const std::string& file, const std::string& etag) const;
  void note_absent(const std::string& commit, const std::string& file) const;  // if it can

 private:
  std::filesystem::path root_, folder_, locks_;
};

// A file that a snapshot lacks for what the command reads, empty if none.
std::string missing_from(const std::filesystem::path& snapshot, ModelFiles part);

InputError cannot_write(const std::filesystem::path& file, int error);

}  // namespace tandem::hub
