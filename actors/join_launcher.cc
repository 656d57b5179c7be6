// Ranks that come by themselves. All that is done for them is memory to meet in.

#include <unistd.h>

#include <map>

#include "actors/cluster.h"
#include "parallel/shared_memory_communicator.h"

namespace tandem::actors {
namespace {

class JoinLauncher final : public GroupLauncher {
 public:
  void open(const WorkerEndpoint&, Exited exited) override { exited_ = std::move(exited); }
  void launch(int replica, uint64_t, int size) override {
    if (size > 1)
      regions_[replica] =
          SharedMemoryRegion::create_shared(size, CommunicatorOptions().chunk_bytes);
  }
  void prepare(int replica, proto::WorkerSetup& setup) override {
    const auto it = regions_.find(replica);
    if (it == regions_.end()) return;
    setup.set_memory_pid(getpid());
    setup.set_memory_fd(it->second->fd());
  }
  void stop(int replica, uint64_t generation, const std::vector<int64_t>&) override {
    regions_.erase(replica);
    exited_(replica, generation, "it was told to stop");
  }

 private:
  Exited exited_;
  std::map<int, std::shared_ptr<SharedMemoryRegion>> regions_;  // of the current generations
};

}  // namespace

std::unique_ptr<GroupLauncher> make_join_launcher() { return std::make_unique<JoinLauncher>(); }

}  // namespace tandem::actors
