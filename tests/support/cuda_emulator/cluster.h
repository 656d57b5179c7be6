// A cluster: blocks of one OS thread each, which meet and read each other's shared memory. A part
// of the scheduler.
//
// Two mistakes that hardware shows only now and then end the process here. A block reads another
// one that may not have begun: no barrier of the cluster has passed. Or it reads one that may have
// ended: no barrier follows.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace cuda_emulator {

class Block;
struct Kernel;

// All blocks of a kernel of clusters; those of rank 0 run in this OS thread, in `first`.
void run_clusters(const Kernel& kernel, Block& first);

class Cluster {
 public:
  explicit Cluster(unsigned blocks) : blocks_(blocks) {}

  // By each block's OS thread, once for each cluster that runs: waits for the others. `shared`: its
  // dynamic shared memory.
  void begin(unsigned rank, unsigned char* shared);
  // For the barrier of all blocks that have not ended.
  void meet();
  // The shared memory of block `rank`; null with the reason in `why` where nobody may read it.
  unsigned char* shared_of(unsigned rank, std::string& why);
  using Work = std::function<void(Block&)>;
  // Lets block `rank`, which shared_of() has given, do something when its threads next make way.
  void post(unsigned rank, Work work);
  std::vector<Work> take(unsigned rank);
  // For block `rank`, none of whose threads can go on: waits for what others post. False: no block
  // of the cluster can go on.
  bool wait_for_post(unsigned rank);
  // False if others may still read this block's shared memory.
  bool end(unsigned rank);
  unsigned size() const { return static_cast<unsigned>(blocks_.size()); }

 private:
  struct OfBlock {
    unsigned char* shared = nullptr;
    bool ended = false;
    bool asleep = false;  // in wait_for_post
    std::vector<Work> posted;
    uint64_t read_at = 0;  // barriers that had passed when it was last read; 0: it was not
  };
  void pass_if_all_met();
  void look_whether_stuck();

  std::mutex mutex_;
  std::condition_variable passed_;
  std::vector<OfBlock> blocks_;
  unsigned begun_ = 0, alive_ = 0, met_ = 0;
  uint64_t clusters_ = 0;  // that have begun
  uint64_t barriers_ = 0;  // of this one
  bool stuck_ = false;
};

}  // namespace cuda_emulator
