// A memfd of this process for each group (shared_memory_communicator.h); it has no name, so nothing
// of it outlives the processes.
#include "actors/group_memory.h"

#include <unistd.h>

namespace tandem::actors {

void GroupMemory::make(int replica, int size) {
  if (size > 1)
    regions_[replica] = SharedMemoryRegion::create_shared(size, CommunicatorOptions().chunk_bytes);
}

void GroupMemory::describe(int replica, proto::WorkerSetup& setup) const {
  const auto it = regions_.find(replica);
  if (it == regions_.end()) return;
  setup.set_memory_pid(getpid());
  setup.set_memory_fd(it->second->fd());
}

}  // namespace tandem::actors
