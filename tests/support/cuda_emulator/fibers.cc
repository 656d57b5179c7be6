// The fibers of a block, and the switches between them: from one to the next, by way of no other.
#include <sys/mman.h>

#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdlib>
#include <memory>
#include <utility>

#include "block.h"

namespace cuda_emulator {
namespace {

constexpr size_t kStackBytes = kSanitized ? 512 << 10 : 128 << 10;
// Where each stack begins: all at one place of their pages would share a few lines of the
// processor's caches.
constexpr size_t kStackStep = 5 * 64, kStackSteps = 64 * 64;
constexpr size_t kStacksOfSlab = 64;

// Of stacks that go with their slab.
struct NoStacks {
  boost::context::stack_context allocate() { std::abort(); }
  void deallocate(boost::context::stack_context&) noexcept {}
};

}  // namespace

boost::context::stack_context Block::stack_of_slab() {
  const size_t number = workers_.size() - 1, bytes = kStackBytes * kStacksOfSlab;
  if (number % kStacksOfSlab == 0) {
    void* slab = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slab == MAP_FAILED) std::abort();
    slabs_.emplace_back(slab, [](void* at) { ::munmap(at, kStackBytes * kStacksOfSlab); });
  }
  boost::context::stack_context stack;
  stack.sp = static_cast<char*>(slabs_.back().get()) + (number % kStacksOfSlab + 1) * kStackBytes;
  stack.size = kStackBytes;
  return stack;
}

void Block::add_worker() {
  workers_.push_back(std::make_unique<Worker>());
  Worker& worker = *workers_.back();
  boost::context::protected_fixedsize_stack guarded(kStackBytes);
  const boost::context::stack_context stack = grid_ ? stack_of_slab() : guarded.allocate();
  worker.marks.bottom = static_cast<char*>(stack.sp) - stack.size;
  worker.marks.size = stack.size;
  worker.marks.create();
  const size_t offset = workers_.size() * kStackStep % kStackSteps;
  const boost::context::preallocated place(static_cast<char*>(stack.sp) - offset,
                                           stack.size - offset, stack);
  const auto body = [this, &worker](boost::context::fiber&& from) {
    arrive(worker, std::move(from));
    work(worker);
    left_ = &worker;
    worker.marks.leave_for(scheduler_.marks, true);
    return std::move(scheduler_.fiber);
  };
  if (grid_)
    worker.fiber = boost::context::fiber(std::allocator_arg, place, NoStacks(), body);
  else
    worker.fiber = boost::context::fiber(std::allocator_arg, place, guarded, body);
  idle_.push_back(&worker);
}

Block::~Block() {
  stopping_ = true;
  scheduler_.marks.adopt_current();
  for (auto& worker : workers_) {
    switch_to(*worker);
    worker->marks.destroy();
  }
}

// Returns when another fiber switches back to the one that calls.
void Block::switch_to(Worker& to) {
  Worker& self = *on_;
  if (&to == &self) return;
  left_ = &self;
  self.marks.leave_for(to.marks);
  arrive(self, std::move(to.fiber).resume());
}

// What a fiber does first when one has switched to it.
void Block::arrive(Worker& self, boost::context::fiber&& from) {
  on_ = &self;
  left_->fiber = std::move(from);
  self.marks.enter(&left_->marks);
}

}  // namespace cuda_emulator
