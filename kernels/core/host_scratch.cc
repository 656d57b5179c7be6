#include "kernels/core/host_scratch.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "kernels/core/scratch_arena.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, bytes) (static_cast<void>(at), static_cast<void>(bytes))
#define ASAN_UNPOISON_MEMORY_REGION(at, bytes) (static_cast<void>(at), static_cast<void>(bytes))
#endif

namespace tandem {

struct HostScratch::Memory {
  Mutex mutex;
  ScratchArena arena GUARDED_BY(mutex);
  std::vector<Tensor> segments GUARDED_BY(mutex);  // of the arena

  size_t bytes() const REQUIRES(mutex) {
    size_t sum = 0;
    for (const Tensor& segment : segments) sum += segment.bytes();
    return sum;
  }

  void* at(const ScratchArena::Place& place) const REQUIRES(mutex) {
    return static_cast<std::byte*>(segments[place.segment].raw()) + place.offset;
  }

  void add_segment(size_t bytes) REQUIRES(mutex) {
    const Tensor& segment =
        segments.emplace_back(Tensor({static_cast<int64_t>(bytes)}, DType::kU8));
    ASAN_POISON_MEMORY_REGION(segment.raw(), bytes);
    arena.add_segment(bytes);
  }

  // Segments stay as they are: one in the place of several would be of fresh pages again.
  void allocate(size_t size, ScratchArena::Place& place) REQUIRES(mutex) {
    constexpr size_t kFirstSegment = size_t{1} << 20;
    if (arena.allocate(size, place)) return;
    // As much again as there is: few segments, however large steps become.
    add_segment(std::max({size + ScratchArena::kAlignment, kFirstSegment, bytes()}));
    TANDEM_CHECK(arena.allocate(size, place));
  }
};

HostScratch::HostScratch() : memory_(std::make_shared<Memory>()) {}

Tensor HostScratch::make(const Shape& shape, DType dtype) {
  size_t bytes = size_of(dtype);
  for (const int64_t d : shape) bytes *= static_cast<size_t>(d);
  ScratchArena::Place place;
  const MutexLock lock(memory_->mutex);
  memory_->allocate(bytes, place);
  void* data = memory_->at(place);
  ASAN_UNPOISON_MEMORY_REGION(data, bytes);
  const auto give_back = [memory = memory_, place, bytes](void* at) {
    const MutexLock guard(memory->mutex);
    ASAN_POISON_MEMORY_REGION(at, bytes);
    memory->arena.release(place, memory->arena.epoch());
  };
  return Tensor::adopt({data, give_back}, data, shape, dtype, Device::kCpu);
}

size_t HostScratch::bytes() const {
  const MutexLock lock(memory_->mutex);
  return memory_->bytes();
}

size_t HostScratch::used() const {
  const MutexLock lock(memory_->mutex);
  return memory_->arena.used();
}

void HostScratch::check_integrity() const {
  const MutexLock lock(memory_->mutex);
  memory_->arena.check_integrity();
  TANDEM_CHECK_EQ(memory_->segments.size(), memory_->arena.segments());
}

}  // namespace tandem
