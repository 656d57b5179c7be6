// A cooperative launch: blocks of one OS thread each, which all run at the same time and may wait
// for each other. A part of the scheduler.
//
// On hardware two mistakes make a block wait without end. Here they end the process:
// - A block waits for others, and no block can go on: each has ended or waits itself.
// - A block waits for others in a launch that is not cooperative. The others may not run.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace cuda_emulator {

class Block;
struct Kernel;

// All blocks of a cooperative kernel; the first runs in this OS thread, in `first`.
void run_grid(const Kernel& kernel, Block& first);

class Grid {
 public:
  explicit Grid(unsigned blocks) : idle_(blocks), alive_(blocks) {}

  // By a block that has stored what others wait for.
  void told();
  // By block `block`, which found what it waited for.
  void found(unsigned block);
  // By block `block`, which waits for another one and has nothing else to do: sleeps until one has
  // told something, or for a moment. What is wrong if nobody can go on any more; else "".
  std::string sleep(unsigned block);
  void end(unsigned block);

 private:
  using Clock = std::chrono::steady_clock;
  void changed();

  std::mutex mutex_;
  std::condition_variable told_;
  uint64_t tellings_ = 0;
  std::vector<bool> idle_;  // blocks whose last look found nothing
  unsigned alive_, ended_ = 0;
  Clock::time_point changed_at_ = Clock::now();
};

}  // namespace cuda_emulator
