// This process's place in an MPI job, and the only header behind which there is MPI: a plugin that
// is loaded when a session begins (mpi_calls.h). MPI is for the bootstrap and for ranks on several
// hosts; between steps nobody waits inside it.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "parallel/communicators/communicator.h"

namespace tandem {

// At most one per process; used from one thread. All ranks call its functions in the same order.
class MpiSession {
 public:
  static constexpr size_t kMaxBroadcastBytes = size_t{64} << 20;

  // Whether mpirun or srun started this process, by its environment; calls nothing of MPI.
  static bool launched_by_mpi();

  // Joins the job. No function waits longer than `timeout` for another rank; all throw
  // CommunicatorError. So does this where MPI's plugin is not there.
  explicit MpiSession(std::chrono::milliseconds timeout = std::chrono::minutes(5));
  // Leaves the job with the others (MPI_Finalize). Does not call it if abandon() was called, a call
  // has failed or the others do not come; then the process must end without it. Destroy
  // communicators first.
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;
  // For a process that will exit although other ranks hang.
  void abandon();

  int rank() const;
  int size() const;
  // Bytes of the root to everybody. More than kMaxBroadcastBytes is an error on all ranks.
  void broadcast(std::string& bytes, int root);
  void barrier();
  // The group of all ranks. With group_size > 0, a divisor of size(): the group of the group_size
  // consecutive ranks that include this one; only they call it. Uses shared memory if the ranks are
  // on one host, else MPI; options.transport can force either. If shared memory cannot be opened,
  // kAuto takes MPI, on all ranks.
  std::unique_ptr<Communicator> make_communicator(const CommunicatorOptions& options = {},
                                                  int group_size = 0);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tandem
