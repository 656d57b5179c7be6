// How the characters of a class are written in UTF-8: small automata over bytes, shared by all
// classes.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "text/unicode/unicode_classes.h"

namespace tandem {

class CharacterBytes {
 public:
  static constexpr int32_t kComplete = -1;  // a character ends here
  static constexpr int32_t kNowhere = -2;   // no such character
  struct Edge {
    uint8_t first, last;
    int32_t next;
    auto operator<=>(const Edge&) const = default;
  };

  // Where the characters begin; kNowhere if there are none. Ranges ascend, without surrogates.
  int32_t add(std::span<const CodePointRange> ranges);
  // Behind one more byte.
  int32_t next(int32_t place, uint8_t byte) const;
  std::span<const Edge> edges(int32_t place) const { return places_[static_cast<size_t>(place)]; }
  size_t size() const { return places_.size(); }

 private:
  struct Bits {  // of a character, the lowest 6 * n of them
    uint32_t first, last;
  };
  int32_t add_place(std::vector<Edge> edges);
  int32_t add_tail(const std::vector<Bits>& ranges, int num_bytes);

  std::vector<std::vector<Edge>> places_;
  std::map<std::vector<Edge>, int32_t> known_;
};

}  // namespace tandem
