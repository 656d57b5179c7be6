// First fit over ordered lists of free pieces.
#include "kernels/core/scratch_arena.h"

#include <algorithm>

#include "base/check.h"

namespace tandem {
namespace {

size_t rounded(size_t bytes) {
  const size_t a = ScratchArena::kAlignment;
  return std::max<size_t>(a, (bytes + a - 1) / a * a);
}

}  // namespace

void ScratchArena::add_segment(size_t bytes) {
  TANDEM_CHECK_GE(bytes, kAlignment);
  bytes = bytes / kAlignment * kAlignment;
  segments_.push_back({bytes, {{0, bytes}}, {}});
}

bool ScratchArena::allocate(size_t bytes, Place& place) {
  const size_t size = rounded(bytes);
  for (size_t s = 0; s < segments_.size(); ++s) {
    auto& free = segments_[s].free;
    const auto fit = std::find_if(free.begin(), free.end(),
                                  [&](const auto& piece) { return piece.second >= size; });
    if (fit == free.end()) continue;
    const auto [offset, room] = *fit;
    free.erase(fit);
    if (room > size) free.emplace(offset + size, room - size);
    segments_[s].used.emplace(offset, size);
    used_ += size;
    most_used_ = std::max(most_used_, used_);
    place = {s, offset};
    return true;
  }
  return false;
}

void ScratchArena::release(const Place& place, uint64_t epoch) {
  if (epoch != epoch_) return;
  TANDEM_CHECK_LT(place.segment, segments_.size());
  Segment& segment = segments_[place.segment];
  const auto used = segment.used.find(place.offset);
  TANDEM_CHECK(used != segment.used.end(), "a place that is not in use is given back");
  auto [offset, size] = *used;
  segment.used.erase(used);
  used_ -= size;
  auto next = segment.free.lower_bound(offset);
  if (next != segment.free.end() && next->first == offset + size) {
    size += next->second;
    next = segment.free.erase(next);
  }
  if (next != segment.free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  segment.free.emplace(offset, size);
}

void ScratchArena::reset() {
  ++epoch_;
  used_ = 0;
  for (Segment& s : segments_) {
    s.used.clear();
    s.free = {{0, s.bytes}};
  }
}

void ScratchArena::check_integrity() const {
  size_t used = 0;
  for (const Segment& s : segments_) {
    std::map<size_t, size_t> all = s.free;
    for (const auto& [offset, size] : s.used) {
      TANDEM_CHECK(all.emplace(offset, size).second, "a piece is free and used");
      used += size;
    }
    size_t at = 0;
    bool was_free = false;
    for (const auto& [offset, size] : all) {
      TANDEM_CHECK_EQ(offset, at);
      const bool is_free = s.free.contains(offset);
      TANDEM_CHECK(!(was_free && is_free), "two free pieces touch");
      was_free = is_free;
      at = offset + size;
    }
    TANDEM_CHECK_EQ(at, s.bytes);
  }
  TANDEM_CHECK_EQ(used, used_);
}

}  // namespace tandem
