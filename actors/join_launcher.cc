// Ranks that come by themselves. All that is done for them is memory to meet in.

#include "actors/cluster.h"
#include "actors/group_memory.h"

namespace tandem::actors {
namespace {

class JoinLauncher final : public GroupLauncher {
 public:
  void open(const WorkerEndpoint&, Exited exited) override { exited_ = std::move(exited); }
  void launch(int replica, uint64_t, int size) override { memory_.make(replica, size); }
  void prepare(int replica, proto::WorkerSetup& setup) override {
    memory_.describe(replica, setup);
  }
  void stop(int replica, uint64_t generation, const std::vector<int64_t>&) override {
    memory_.drop(replica);
    exited_(replica, generation, "it was told to stop");
  }

 private:
  Exited exited_;
  GroupMemory memory_;
};

}  // namespace

std::unique_ptr<GroupLauncher> make_join_launcher() { return std::make_unique<JoinLauncher>(); }

}  // namespace tandem::actors
