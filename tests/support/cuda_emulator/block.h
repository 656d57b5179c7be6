// The state of the block that an OS thread runs, its threads as fibers. A part of the scheduler.
#pragma once

#include <boost/context/fiber.hpp>
#include <memory>
#include <string>
#include <vector>

#include "bulk_copies.h"
#include "cluster.h"
#include "cuda_emulator.h"
#include "grid.h"
#include "sanitizers.h"
#include "warp_groups.h"

namespace cuda_emulator {

struct Random {
  uint64_t state;
  explicit Random(uint64_t from) : state(from * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u) {}
  uint32_t next() {  // xorshift64*
    state ^= state >> 12, state ^= state << 25, state ^= state >> 27;
    return static_cast<uint32_t>((state * 0x2545f4914f6cdd1du) >> 32);
  }
  uint32_t below(uint32_t n) { return static_cast<uint32_t>((uint64_t{next()} * n) >> 32); }
};

struct AsyncCopy {
  void* to;
  const void* from;
  size_t size;
  bool zero;
  unsigned group;
};

// (A switch reads what comes before `copies`: one line of the processor's cache.)
struct alignas(64) Thread {
  // kWaitingForPhase: of a copy barrier, not for other threads by name.
  enum class State : uint8_t { kNew, kRunnable, kRunning, kWaiting, kWaitingForPhase, kEnded };
  State state = State::kNew;
  bool waited = false;  // for earlier kernels
  uint3 index{};
  unsigned waits_for = 0;  // the mask; 0: all of the block
  const char* waits_at = "";
  struct Worker* worker = nullptr;
  BlockVotes votes{};
  unsigned group = 0;  // of cp.async: the one that is being filled
  std::vector<AsyncCopy> copies;
};

// Lanes that wait for each other; lanes.mask: those that have come.
struct Meeting {
  const char* name;
  unsigned mask;  // as the lanes gave it
  void (*act)(WarpMeeting&);
  WarpMeeting lanes;
};

struct Warp {
  unsigned alive = 0;
  std::vector<Meeting> meetings;
};

// A fiber, while another one runs.
struct Worker {
  boost::context::fiber fiber;
  FiberMarks marks;
};

class Block {
 public:
  Block() = default;
  ~Block();
  // All blocks of the kernel, or of each cluster the one of that rank, or of a cooperative launch
  // the one of that number.
  void run(const Kernel& kernel, unsigned rank = 0, Cluster* cluster = nullptr,
           Grid* grid = nullptr);

  BlockVotes block_barrier(const char* name, int value);
  void warp_meet(const char* name, unsigned mask, void* data, void (*act)(WarpMeeting&));
  void yield();
  void maybe_yield() {
    if (random_.below(8) == 0) yield();
  }
  void wait_for_phase();
  void cluster_barrier();
  bool grid_reached(uint32_t* at, uint32_t value);
  void grid_add(uint32_t* at, uint32_t value);
  const unsigned char* in_block_of_cluster(const void* own, size_t bytes, unsigned rank);
  void arrive_in_block(const uint64_t* at, unsigned rank);
  void copy_to_blocks(const BoxCopy& copy, unsigned blocks);
  void wake(unsigned thread);
  unsigned lane() const { return running_ % kWarp; }
  unsigned running_index() const { return running_; }
  unsigned num_threads() const { return static_cast<unsigned>(threads_.size()); }
  bool has_ended(unsigned thread) const { return threads_[thread].state == Thread::State::kEnded; }
  Random& random() { return random_; }
  BulkCopies& bulk_copies() { return bulk_copies_; }
  WarpGroups& warp_groups() { return warp_groups_; }
  // What has this address, as shared_address() gives them.
  const unsigned char* in_window(uint64_t address) const;
  bool is_shared(const void* at, size_t bytes) const;
  unsigned char* shared() { return shared_; }
  Thread& running() { return threads_[running_]; }
  void need_waited(const char* what) {
    if (!running().waited) [[unlikely]]
      fail_unwaited(what);
  }
  [[noreturn]] void fail(const std::string& what);

 private:
  // The address of the window's first 1024 bytes: the system has those before on hardware.
  static constexpr uint64_t kWindow = 1024;
  void shuffle(std::vector<uint32_t>& items);
  void run_block(uint32_t number);
  void add_worker();
  boost::context::stack_context stack_of_slab();
  Worker& next();
  void switch_to(Worker& to);
  void arrive(Worker& self, boost::context::fiber&& from);
  void work(Worker& self);
  void end_thread();
  void wait(const char* name, unsigned mask);
  void pass_block_barrier();
  void pass_meeting(Warp& warp, size_t at);
  void do_posted();
  void* place_to_change(const void* own, size_t bytes, unsigned rank);
  [[noreturn]] void fail_stuck();
  [[noreturn]] void fail_unwaited(const char* what);

  const Kernel* kernel_ = nullptr;
  Random random_{0};
  uint3 block_{};
  std::vector<Thread> threads_;
  std::vector<uint32_t> order_;     // of threads that have not begun
  size_t begun_ = 0;                // of order_
  std::vector<unsigned> runnable_;  // begun, and able to go on
  unsigned running_ = 0;
  unsigned alive_ = 0;
  std::vector<Warp> warps_;

  const char* barrier_name_ = nullptr;
  unsigned barrier_arrived_ = 0;
  BlockVotes votes_{};
  BulkCopies bulk_copies_{*this};
  WarpGroups warp_groups_{*this};

  // Stacks side by side: those of all blocks of a grid, with a guard each, were more areas of
  // memory than a process may have.
  std::vector<std::unique_ptr<void, void (*)(void*)>> slabs_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<Worker*> idle_;
  Worker scheduler_;            // the OS thread itself
  Worker* on_ = &scheduler_;    // the one that runs
  Worker* left_ = &scheduler_;  // the one that ran before it
  bool stopping_ = false;
  unsigned char* shared_ = nullptr;  // dynamic
  Cluster* cluster_ = nullptr;       // null: no clusters
  Grid* grid_ = nullptr;             // null: the launch is not cooperative
  unsigned rank_ = 0;                // in one of them
  bool meets_cluster_ = false;       // a thread is in Cluster::meet, or was
};

// The block that this OS thread runs.
Block& here(const char* what);

}  // namespace cuda_emulator
