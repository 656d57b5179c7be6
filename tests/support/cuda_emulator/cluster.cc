// Blocks that meet (cluster.h).
#include "cluster.h"

#include <thread>
#include <utility>

#include "block.h"

namespace cuda_emulator {

void run_clusters(const Kernel& kernel, Block& first) {
  Cluster cluster(kernel.cluster);
  std::vector<std::thread> others;
  for (unsigned rank = 1; rank < kernel.cluster; ++rank)
    others.emplace_back([&, rank] { Block().run(kernel, rank, &cluster); });
  first.run(kernel, 0, &cluster);
  for (std::thread& other : others) other.join();
}

void Cluster::begin(unsigned rank, unsigned char* shared) {
  std::unique_lock lock(mutex_);
  blocks_[rank].shared = shared;
  if (++begun_ < size()) {
    passed_.wait(lock, [this, before = clusters_] { return clusters_ != before; });
    return;
  }
  for (OfBlock& block : blocks_) {
    block.ended = block.asleep = false;
    block.posted.clear();
    block.read_at = 0;
  }
  begun_ = met_ = 0;
  barriers_ = 0;
  alive_ = size();
  ++clusters_;
  passed_.notify_all();
}

void Cluster::pass_if_all_met() {
  if (met_ == 0 || met_ < alive_) return;
  met_ = 0;
  ++barriers_;
  passed_.notify_all();
}

void Cluster::meet() {
  std::unique_lock lock(mutex_);
  const uint64_t before = barriers_;
  ++met_;
  pass_if_all_met();
  look_whether_stuck();
  // (No barrier passes without this block, so the number goes one up.)
  passed_.wait(lock, [&] { return barriers_ != before; });
}

void Cluster::post(unsigned rank, Work work) {
  std::lock_guard lock(mutex_);
  blocks_[rank].posted.push_back(std::move(work));
  passed_.notify_all();
}

std::vector<Cluster::Work> Cluster::take(unsigned rank) {
  std::lock_guard lock(mutex_);
  return std::exchange(blocks_[rank].posted, {});
}

void Cluster::look_whether_stuck() {
  unsigned idle = met_;
  for (const OfBlock& block : blocks_) idle += block.asleep && block.posted.empty();
  if (idle < alive_ || idle == met_) return;
  stuck_ = true;
  passed_.notify_all();
}

bool Cluster::wait_for_post(unsigned rank) {
  std::unique_lock lock(mutex_);
  OfBlock& own = blocks_[rank];
  own.asleep = true;
  look_whether_stuck();
  passed_.wait(lock, [&] { return !own.posted.empty() || stuck_; });
  own.asleep = false;
  return !own.posted.empty();
}

unsigned char* Cluster::shared_of(unsigned rank, std::string& why) {
  std::lock_guard lock(mutex_);
  if (rank >= size()) {
    why = "there is no such block in the cluster";
  } else if (barriers_ == 0) {
    why = "it may not have begun: no barrier of the cluster has passed";
  } else if (blocks_[rank].ended) {
    why = "it has ended";
  } else {
    blocks_[rank].read_at = barriers_;
    return blocks_[rank].shared;
  }
  return nullptr;
}

bool Cluster::end(unsigned rank) {
  std::lock_guard lock(mutex_);
  if (barriers_ > 0 && blocks_[rank].read_at == barriers_) return false;
  blocks_[rank].ended = true;
  --alive_;
  pass_if_all_met();
  look_whether_stuck();
  return true;
}

// The first thread that goes on waits for the other blocks, the others for it.
void Block::cluster_barrier() {
  block_barrier("a barrier of the cluster", 0);
  if (cluster_ && !meets_cluster_) {
    meets_cluster_ = true;
    cluster_->meet();
  }
  block_barrier("a barrier of the cluster", 0);
  meets_cluster_ = false;
}

const unsigned char* Block::in_block_of_cluster(const void* own, size_t bytes, unsigned rank) {
  const auto* at = static_cast<const unsigned char*>(own);
  if (at < shared_ || at + bytes > shared_ + kernel_->shared)
    fail("a place in a cluster that is not in the dynamic shared memory");
  std::string why = "the kernel has no clusters";
  const unsigned char* there = cluster_ ? cluster_->shared_of(rank, why) : nullptr;
  if (!there) fail("shared memory of block " + std::to_string(rank) + " of the cluster: " + why);
  maybe_yield();
  return there + (at - shared_);
}

}  // namespace cuda_emulator
