// Memory in which the ranks of a group meet that run as processes of this host: one block for each
// replica's current group. A rank opens it by what its WorkerSetup says.
#pragma once

#include <map>
#include <memory>

#include "parallel/communicators/shared_memory_communicator.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem::actors {

class GroupMemory {
 public:
  // A new block; none for a group of one. Throws CommunicatorError.
  void make(int replica, int size);
  void describe(int replica, proto::WorkerSetup& setup) const;
  void drop(int replica) { regions_.erase(replica); }

 private:
  std::map<int, std::shared_ptr<SharedMemoryRegion>> regions_;
};

}  // namespace tandem::actors
