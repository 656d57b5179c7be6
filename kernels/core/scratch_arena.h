// Allocation of a device's scratch memory. It handles offsets only; the backend owns the memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tandem {

// First fit in address order, in a few segments. The same calls since the last reset() give the
// same places; recorded steps rely on that. Segments are added on demand and change nothing for
// calls that fit without them. One thread.
class ScratchArena {
 public:
  static constexpr size_t kAlignment = 256;
  struct Place {
    size_t segment = 0, offset = 0;
    bool operator==(const Place&) const = default;
  };

  void add_segment(size_t bytes);
  size_t segments() const { return segments_.size(); }
  // False if no segment has room.
  bool allocate(size_t bytes, Place& place);
  // Frees a place that allocate() returned in this epoch. Ignores one of an earlier epoch.
  void release(const Place& place, uint64_t epoch);
  // Everything is free again.
  void reset();
  uint64_t epoch() const { return epoch_; }
  size_t used() const { return used_; }
  size_t most_used() const { return most_used_; }

  // Free and used pieces tile each segment, and no two free ones touch. Stops the process
  // otherwise.
  void check_integrity() const;

 private:
  struct Segment {
    size_t bytes;
    std::map<size_t, size_t> free;  // offset → bytes
    std::map<size_t, size_t> used;
  };
  std::vector<Segment> segments_;
  uint64_t epoch_ = 1;
  size_t used_ = 0, most_used_ = 0;
};

}  // namespace tandem
