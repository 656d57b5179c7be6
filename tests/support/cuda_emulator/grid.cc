// Blocks that wait for each other (grid.h).
#include "grid.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include "block.h"

namespace cuda_emulator {
namespace {

constexpr std::chrono::milliseconds kMoment(1);
// The host may end a wait, so all blocks may be asleep for a while.
constexpr std::chrono::seconds kStuck(3);

}  // namespace

void run_grid(const Kernel& kernel, Block& first) {
  const dim3 g = kernel.grid;
  const unsigned blocks = g.x * g.y * g.z;
  Grid grid(blocks);
  std::vector<std::thread> others;
  for (unsigned block = 1; block < blocks; ++block)
    others.emplace_back([&, block] { Block().run(kernel, block, nullptr, &grid); });
  first.run(kernel, 0, nullptr, &grid);
  for (std::thread& other : others) other.join();
}

void Grid::changed() { changed_at_ = Clock::now(); }

void Grid::told() {
  std::lock_guard lock(mutex_);
  ++tellings_;
  changed();
  told_.notify_all();
}

void Grid::found(unsigned block) {
  std::lock_guard lock(mutex_);
  idle_[block] = false;
  changed();
}

std::string Grid::sleep(unsigned block) {
  std::unique_lock lock(mutex_);
  if (!idle_[block]) changed();
  idle_[block] = true;
  told_.wait_for(lock, kMoment, [this, before = tellings_] { return tellings_ != before; });
  const bool all = std::ranges::count(idle_, true) == alive_;
  if (!all || Clock::now() - changed_at_ < kStuck) return "";
  return ended_ > 0 ? "a block has ended before a barrier of the grid at which others wait"
                    : "deadlock: all blocks of a cooperative launch wait for others";
}

void Grid::end(unsigned block) {
  std::lock_guard lock(mutex_);
  idle_[block] = false;
  --alive_;
  ++ended_;
  changed();
}

// Lets the block's other threads go on; where none can, the other blocks.
bool Block::grid_reached(uint32_t* at, uint32_t value) {
  need_waited("waits for other blocks");
  const auto reached = [&] {
    const uint32_t now = std::atomic_ref<uint32_t>(*at).load(std::memory_order_acquire);
    return static_cast<int32_t>(now - value) >= 0;
  };
  maybe_yield();
  if (reached()) {
    if (grid_) grid_->found(rank_);
    return true;
  }
  if (!runnable_.empty() || begun_ < order_.size()) {
    yield();
  } else if (bulk_copies_.any()) {
    bulk_copies_.happen();
  } else if (!grid_) {
    fail("a wait for other blocks in a launch that is not cooperative: they may not run");
  } else if (const std::string why = grid_->sleep(rank_); !why.empty()) {
    fail(why);
  }
  return false;
}

void Block::grid_add(uint32_t* at, uint32_t value) {
  maybe_yield();
  std::atomic_ref<uint32_t>(*at).fetch_add(value, std::memory_order_acq_rel);
  if (grid_) grid_->told();
}

}  // namespace cuda_emulator
