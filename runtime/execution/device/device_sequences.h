// Sequences whose tokens a device has before the host does (ops::SequenceMemory): their places, and
// how many tokens the device has of each, steps under way included.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/sampling_ops.h"

namespace tandem {

class DeviceSequences {
 public:
  // max_tokens: of a sequence; 0: no limit is known.
  DeviceSequences(Context& ctx, int block_size, int max_tokens);
  // So many sequences of all lengths, as far as that does not take much: then nothing of theirs
  // moves later. Before the first begin().
  void reserve_for(int sequences);

  // Of a sequence whose tokens the host knows all.
  struct Start {
    int64_t seq_id = 0;
    std::span<const int32_t> prompt, output;
    std::span<const int32_t> pages = {};  // full ones, of a beam
    float score = 0;                      // of a beam
  };
  // Gives them places, or uses those that they have. Uses scratch memory until it returns. True if
  // the memory has moved: recorded steps that use it are void.
  bool begin(std::span<const Start> starts);
  // Room for one token more of each of them. True as above.
  bool reserve_next(std::span<const int64_t> seq_ids);
  // A step that appends one was launched.
  void append(int64_t seq_id);
  // Those that are not there are passed over.
  void forget(std::span<const int64_t> seq_ids);

  // Whether the device has this many tokens of the sequence.
  bool has(int64_t seq_id, int tokens) const;
  // It must have one. Throws std::runtime_error in begin() when they run out (32,768).
  int32_t place_of(int64_t seq_id) const { return held_.at(seq_id).place; }
  // What stands for page `index` of a place in a page table (ops::SubstitutePages).
  static int32_t page_reference(int32_t place, int32_t index) {
    return -1 - (place << ops::kPlacePageBits | index);
  }

  const ops::SequenceMemory& memory() const { return memory_; }
  size_t size() const { return held_.size(); }
  void check_integrity() const;

 private:
  struct Held {
    int32_t place = 0;
    int tokens = 0;
  };
  bool reserve(int64_t places, int64_t tokens);

  Context& ctx_;
  int block_size_, max_tokens_;
  std::unordered_map<int64_t, Held> held_;  // by sequence id
  std::vector<int32_t> free_;               // places below num_places_
  int32_t num_places_ = 0;                  // that were given out so far
  ops::SequenceMemory memory_;
};

}  // namespace tandem
