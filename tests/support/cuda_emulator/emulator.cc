// The scheduler: the threads of a block as fibers of one OS thread.
//
// A fiber runs threads from start to end, one after another, and gives way only where one of them
// waits; so kernels without barriers cost little more than calls.
#include <cxxabi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "block.h"
#include "shared_memory.h"

namespace cuda_emulator {
namespace {

uint64_t seed_from_environment() {
  const char* text = std::getenv("TANDEM_EMULATOR_SEED");
  return text ? std::strtoull(text, nullptr, 10) : 1;
}

// Of the whole process: a test sets it while no kernel runs.
uint64_t seed = seed_from_environment();

// Of the kernel that this OS thread runs.
thread_local Block* current = nullptr;

// Of two names of meetings, most often the same literal.
bool is_same(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

}  // namespace

void Block::fail(const std::string& what) {
  int status = 0;
  char* name = abi::__cxa_demangle(kernel_->type, nullptr, nullptr, &status);
  const uint3 t = threads_[running_].index;
  std::fprintf(
      stderr,
      "cuda_emulator: %s\n  kernel launched by %s\n  grid (%u, %u, %u), block (%u, %u, %u), "
      "seed %llu\n  in block (%u, %u, %u), thread (%u, %u, %u)\n",
      what.c_str(), name ? name : kernel_->type, kernel_->grid.x, kernel_->grid.y, kernel_->grid.z,
      kernel_->block.x, kernel_->block.y, kernel_->block.z, static_cast<unsigned long long>(seed),
      block_.x, block_.y, block_.z, t.x, t.y, t.z);
  std::abort();
}

void Block::run(const Kernel& kernel, unsigned rank, Cluster* cluster, Grid* grid) {
  kernel_ = &kernel;
  cluster_ = cluster;
  grid_ = grid;
  rank_ = rank;
  random_ = Random(seed);
  const dim3 b = kernel.block, g = kernel.grid;
  threads_.resize(b.x * b.y * b.z);
  for (unsigned i = 0; i < threads_.size(); ++i)
    threads_[i].index = {i % b.x, i / b.x % b.y, i / b.x / b.y};
  warps_.resize((threads_.size() + kWarp - 1) / kWarp);
  order_.resize(threads_.size());
  for (unsigned i = 0; i < order_.size(); ++i) order_[i] = i;
  // The last byte that a kernel may touch is the last one of the allocation: ASan sees the rest.
  void* memory = nullptr;
  // (Places of a cluster's blocks are alike, as alignments that kernels make themselves are.)
  const size_t alignment = kernel.cluster > 1 ? 1024 : 128;
  if (posix_memalign(&memory, alignment, std::max<size_t>(kernel.shared, 1)) != 0) std::abort();
  const std::unique_ptr<void, void (*)(void*)> owner(memory, std::free);
  shared_ = static_cast<unsigned char*>(memory);
  blockDim = b;
  gridDim = g;
  // (In the same order for all ranks, whose random numbers begin alike.)
  std::vector<uint32_t> blocks(size_t{g.x} * g.y * g.z / kernel.cluster);
  for (uint32_t i = 0; i < blocks.size(); ++i) blocks[i] = i;
  shuffle(blocks);
  if (cluster || grid) random_ = Random(random_.next() + rank);
  scheduler_.marks.adopt_current();
  current = this;
  if (grid)
    run_block(rank);
  else
    for (uint32_t number : blocks) run_block(number * kernel.cluster + rank);
  current = nullptr;
}

void Block::shuffle(std::vector<uint32_t>& items) {
  for (size_t i = items.size(); i > 1; --i)
    std::swap(items[i - 1], items[random_.below(static_cast<uint32_t>(i))]);
}

void Block::run_block(uint32_t number) {
  const dim3 g = kernel_->grid;
  block_ = blockIdx = {number % g.x, number / g.x % g.y, number / g.x / g.y};
  std::memset(shared_, 0xff, kernel_->shared);
  poison_static_shared();
  warp_groups_.begin_block(kernel_->shared);
  if (cluster_) cluster_->begin(rank_, shared_);
  alive_ = static_cast<unsigned>(threads_.size());
  for (unsigned w = 0; w < warps_.size(); ++w) {
    const unsigned lanes = std::min(kWarp, alive_ - w * kWarp);
    warps_[w].alive = lanes == kWarp ? ~0u : (1u << lanes) - 1;
  }
  for (Thread& thread : threads_) {
    thread.state = Thread::State::kNew;
    thread.waited = false;
  }
  shuffle(order_);
  begun_ = 0;
  switch_to(next());
  if (alive_ != 0) fail_stuck();
  do_posted();
  note_static_shared(kernel_->type);
  bulk_copies_.end_block();
  warp_groups_.end_block();
  if (grid_) grid_->end(rank_);
  if (cluster_ && !cluster_->end(rank_))
    fail(
        "a block ends whose shared memory others of its cluster may read: no barrier of the "
        "cluster behind it");
}

// Which fiber goes on: that of a thread that can, one that is to begin others, or the scheduler,
// where nobody can go on.
Worker& Block::next() {
  for (;;) {
    do_posted();
    const size_t choices = runnable_.size() + order_.size() - begun_;
    if (bulk_copies_.any() && (choices == 0 ? alive_ > 0 : random_.below(16) == 0)) {
      bulk_copies_.happen();
      continue;
    }
    if (choices == 0 && alive_ > 0 && cluster_ && cluster_->wait_for_post(rank_)) continue;
    if (choices == 0) return scheduler_;
    const size_t choice = random_.below(static_cast<uint32_t>(choices));
    if (choice < runnable_.size()) {
      running_ = runnable_[choice];
      runnable_[choice] = runnable_.back();
      runnable_.pop_back();
      Thread& thread = threads_[running_];
      thread.state = Thread::State::kRunning;
      threadIdx = thread.index;
      return *thread.worker;
    }
    if (idle_.empty()) add_worker();
    Worker& worker = *idle_.back();
    idle_.pop_back();
    return worker;
  }
}

// What a fiber does. It begins new threads for as long as no others that have begun could go on.
void Block::work(Worker& self) {
  while (!stopping_) {
    while (begun_ < order_.size()) {
      running_ = order_[begun_++];
      threads_[running_].worker = &self;
      threads_[running_].state = Thread::State::kRunning;
      threadIdx = threads_[running_].index;
      kernel_->thread();
      need_waited("ends");
      end_thread();
      if (!runnable_.empty()) break;
    }
    idle_.push_back(&self);
    switch_to(next());
  }
}

void Block::end_thread() {
  Thread& thread = threads_[running_];
  thread.state = Thread::State::kEnded;
  thread.copies.clear();
  thread.group = 0;
  --alive_;
  Warp& warp = warps_[running_ / kWarp];
  warp.alive &= ~(1u << running_ % kWarp);
  // Others may have waited for this one only.
  if (barrier_arrived_ > 0 && barrier_arrived_ == alive_) pass_block_barrier();
  for (size_t i = warp.meetings.size(); i-- > 0;)
    if (warp.meetings[i].lanes.mask == (warp.meetings[i].mask & warp.alive)) pass_meeting(warp, i);
}

void Block::wait(const char* name, unsigned mask) {
  Thread& thread = threads_[running_];
  thread.state = Thread::State::kWaiting;
  thread.waits_at = name;
  thread.waits_for = mask;
  switch_to(next());
}

void Block::wait_for_phase() {
  Thread& thread = threads_[running_];
  thread.state = Thread::State::kWaitingForPhase;
  thread.waits_at = "a wait for a copy barrier";
  thread.waits_for = 0;
  switch_to(next());
}

void Block::wake(unsigned thread) {
  const Thread::State state = threads_[thread].state;
  if (state != Thread::State::kWaiting && state != Thread::State::kWaitingForPhase) return;
  threads_[thread].state = Thread::State::kRunnable;
  runnable_.push_back(thread);
}

void Block::yield() {
  if (runnable_.empty() && begun_ == order_.size()) return;
  threads_[running_].state = Thread::State::kRunnable;
  runnable_.push_back(running_);
  switch_to(next());
}

bool Block::is_shared(const void* at, size_t bytes) const {
  const auto* begin = static_cast<const unsigned char*>(at);
  return (begin >= shared_ && begin + bytes <= shared_ + kernel_->shared) ||
         is_static_shared(at, bytes);
}

void Block::fail_unwaited(const char* what) {
  fail(std::string("a thread has not waited for earlier kernels when it ") + what);
}

BlockVotes Block::block_barrier(const char* name, int value) {
  need_waited("meets others");
  if (barrier_arrived_ == 0) {
    barrier_name_ = name;
    votes_ = {0, 1, 0};
  } else if (!is_same(barrier_name_, name)) {
    fail(std::string("threads of a block meet in ") + barrier_name_ + " and in " + name);
  }
  votes_.count += value != 0;
  votes_.all &= value != 0;
  votes_.any |= value != 0;
  const unsigned self = running_;
  if (++barrier_arrived_ == alive_)
    pass_block_barrier();
  else
    wait(name, 0);
  return threads_[self].votes;
}

void Block::pass_block_barrier() {
  barrier_arrived_ = 0;
  for (unsigned i = 0; i < threads_.size(); ++i) {
    Thread& thread = threads_[i];
    const bool waits = thread.state == Thread::State::kWaiting && thread.waits_for == 0;
    if (!waits && i != running_) continue;
    thread.votes = votes_;
    wake(i);
  }
  bulk_copies_.all_met();
}

void Block::warp_meet(const char* name, unsigned mask, void* data, void (*act)(WarpMeeting&)) {
  need_waited("meets others");
  const unsigned self = lane();
  if (!(mask >> self & 1)) fail(std::string(name) + ": the mask lacks the lane that calls");
  Warp& warp = warps_[running_ / kWarp];
  size_t at = 0;
  while (at < warp.meetings.size() && warp.meetings[at].mask != mask) ++at;
  if (at == warp.meetings.size()) {
    warp.meetings.push_back({name, mask, act, {}});
  } else if (!is_same(warp.meetings[at].name, name)) {
    fail(std::string("lanes of a warp meet in ") + warp.meetings[at].name + " and in " + name);
  }
  Meeting& meeting = warp.meetings[at];
  meeting.lanes.mask |= 1u << self;
  meeting.lanes.data[self] = data;
  if (meeting.lanes.mask == (mask & warp.alive))
    pass_meeting(warp, at);
  else
    wait(name, mask);
}

void Block::pass_meeting(Warp& warp, size_t at) {
  WarpMeeting lanes = warp.meetings[at].lanes;
  const auto act = warp.meetings[at].act;
  // (Of what lanes do together only this orders what they read and write.)
  const bool orders = std::strcmp(warp.meetings[at].name, "__syncwarp") == 0;
  warp.meetings.erase(warp.meetings.begin() + static_cast<ptrdiff_t>(at));
  act(lanes);
  const unsigned first = static_cast<unsigned>(&warp - warps_.data()) * kWarp;
  if (orders) bulk_copies_.met(first, lanes.mask);
  for (unsigned i = 0; i < kWarp; ++i)
    if (lanes.mask >> i & 1) wake(first + i);
}

// Nobody can go on: names some of those who wait.
void Block::fail_stuck() {
  std::string text = "deadlock: " + std::to_string(alive_) + " threads wait for others, among them";
  int named = 0;
  for (unsigned i = 0; i < threads_.size() && named < 8; ++i) {
    const Thread& thread = threads_[i];
    if (thread.state != Thread::State::kWaiting && thread.state != Thread::State::kWaitingForPhase)
      continue;
    if (named++ == 0) running_ = i;
    char line[160];
    std::snprintf(line, sizeof line, "\n    (%u, %u, %u) in %s", thread.index.x, thread.index.y,
                  thread.index.z, thread.waits_at);
    text += line;
    if (thread.waits_for != 0) {
      std::snprintf(line, sizeof line, " with mask %08x", thread.waits_for);
      text += line;
    }
  }
  fail(text + bulk_copies_.missing());
}

Block& here(const char* what) {
  if (!current) {
    std::fprintf(stderr, "cuda_emulator: %s outside of a kernel\n", what);
    std::abort();
  }
  return *current;
}

void run_kernel(const Kernel& kernel) {
  // One for each OS thread: its fibers are kept for the next kernel.
  static thread_local Block block;
  if (current) block.fail("a kernel launches a kernel");
  if (kernel.cooperative) return run_grid(kernel, block);
  if (kernel.cluster == 1) return block.run(kernel);
  run_clusters(kernel, block);
}

void wait_for_earlier_kernels() { here("a wait for earlier kernels").running().waited = true; }
void set_seed(uint64_t value) { seed = value; }
unsigned char* dynamic_shared() { return here("dynamic shared memory").shared(); }
BlockVotes block_barrier(const char* name, int value) {
  return here(name).block_barrier(name, value);
}
void warp_meet(const char* name, unsigned mask, void* data, void (*act)(WarpMeeting&)) {
  here(name).warp_meet(name, mask, data, act);
}
unsigned lane() { return here("lane").lane(); }
void yield() { here("yield").yield(); }
void spin() {
  here("a wait for another device").yield();
  std::this_thread::yield();
}
void maybe_yield() { here("an atomic operation or fence").maybe_yield(); }
void fail(const char* what) { here(what).fail(what); }

void async_copy(void* to, const void* from, size_t size, bool zero) {
  Thread& thread = here("cp.async").running();
  thread.copies.push_back({to, from, size, zero, thread.group});
}

void async_commit() { ++here("cp.async.commit_group").running().group; }

void async_wait(unsigned groups_left) {
  Thread& thread = here("cp.async.wait_group").running();
  size_t left = 0;
  for (const AsyncCopy& copy : thread.copies) {
    if (copy.group + groups_left >= thread.group)
      thread.copies[left++] = copy;
    else if (copy.zero)
      std::memset(copy.to, 0, copy.size);
    else
      std::memcpy(copy.to, copy.from, copy.size);
  }
  thread.copies.resize(left);
}

bool grid_reached(uint32_t* at, uint32_t value) {
  return here("a wait for other blocks").grid_reached(at, value);
}
void grid_add(uint32_t* at, uint32_t value) { here("a word for other blocks").grid_add(at, value); }

void cluster_barrier() { here("a barrier of the cluster").cluster_barrier(); }
const void* in_block_of_cluster(const void* own, size_t bytes, unsigned rank) {
  return here("a read from another block").in_block_of_cluster(own, bytes, rank);
}

void make_copy_barrier(const uint64_t* at, unsigned arrivals) {
  here("mbarrier.init").bulk_copies().make(at, arrivals);
}
void copy_barriers_made() { here("fence.mbarrier_init").bulk_copies().made(); }
void arrive_at_copies(const uint64_t* at, uint64_t bytes) {
  here("mbarrier.arrive").bulk_copies().arrive(at, bytes);
}
void wait_for_copies(const uint64_t* at, unsigned parity) {
  here("mbarrier.try_wait").bulk_copies().wait(at, parity);
}
void bulk_copy(void* to, const void* from, size_t bytes, const uint64_t* at) {
  here("cp.async.bulk").bulk_copies().copy(to, from, bytes, at);
}

}  // namespace cuda_emulator
