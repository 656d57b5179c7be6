// Which bytes of a device's scratch memory are whose. Numbers only; the memory is the backend's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace tandem {

// Pieces of a few segments, first fit in address order: the same calls since the last reset() give
// the same places, which recorded steps rely on. More segments are added as they are needed and
// change nothing for calls that fit without them. One thread.
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
  // Gives a place back that allocate() gave in this epoch; one of an earlier epoch is ignored.
  void release(const Place& place, uint64_t epoch);
  // Everything is free again.
  void reset();
  uint64_t epoch() const { return epoch_; }
  size_t used() const { return used_; }
  size_t most_used() const { return most_used_; }

  // Free and used pieces tile each segment, and no two free ones touch. Stops where they do not.
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
