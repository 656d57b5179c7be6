// Programs that this process runs, in groups that end as a unit: the first that ends takes the
// others with it. However this process ends, they end (parent-death signals).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tandem::launcher {

struct ChildProgram {
  std::string name;                      // in messages: "rank 1"
  std::vector<std::string> command;      // begins with the program's path
  std::vector<std::string> environment;  // all of it
  // If set: asked about five times a second; once it says so, the program is killed.
  std::function<bool(pid_t)> is_stuck;
};

class ChildProcesses {
 public:
  using Key = std::pair<int, uint64_t>;  // replica, generation
  // All processes of a group have ended and been reaped. how: as the first of them did ("rank 1
  // ended by signal 9"). From this object's thread.
  using GroupEnded = std::function<void(const Key& key, const std::string& how)>;

  explicit ChildProcesses(GroupEnded ended);
  // Kills what is left, and waits until it is gone.
  ~ChildProcesses();
  ChildProcesses(const ChildProcesses&) = delete;
  ChildProcesses& operator=(const ChildProcesses&) = delete;

  // Neither waits; both happen in the order of the calls. Programs run in process groups of their
  // own, without standard input; their output goes to standard error.
  void start(const Key& key, std::vector<ChildProgram> programs);
  // SIGKILL goes to everything that a program has started in its process group, another signal to
  // the program alone. A group that has ended is left in peace.
  void end(const Key& key, int signal);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem::launcher
