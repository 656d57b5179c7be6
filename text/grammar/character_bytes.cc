#include "text/grammar/character_bytes.h"

#include <algorithm>
#include <utility>

namespace tandem {
namespace {

constexpr int kBitsOfByte = 6;  // that a byte behind the first one holds

struct Length {
  uint32_t first, last;  // characters that are written with so many bytes
  int tail;              // of which so many stand behind the first one
  uint8_t lead;          // the first one's mark
};
constexpr Length kLengths[] = {{0, 0x7f, 0, 0},
                               {0x80, 0x7ff, 1, 0xc0},
                               {0x800, 0xffff, 2, 0xe0},
                               {0x10000, 0x10ffff, 3, 0xf0}};

void join(std::vector<CharacterBytes::Edge>& edges, CharacterBytes::Edge edge) {
  if (edge.next == CharacterBytes::kNowhere) return;
  if (!edges.empty() && edges.back().next == edge.next && edges.back().last + 1 == edge.first)
    edges.back().last = edge.last;
  else
    edges.push_back(edge);
}

// Ranges by what they have above their lowest `bits`: told(first, last, ranges of the lowest bits),
// in order. Neighbours of which all lower bits are in are told at once.
template <class Range, class Told>
void split(const std::vector<Range>& ranges, int bits, const Told& told) {
  const uint32_t full = (uint32_t{1} << bits) - 1;
  std::vector<Range> part;
  uint32_t head = 0;
  const auto end_part = [&] {
    if (!part.empty()) told(head, head, std::exchange(part, {}));
  };
  for (auto [first, last] : ranges) {
    while (true) {
      const uint32_t h = first >> bits;
      if (!part.empty() && h != head) end_part();
      head = h;
      const uint32_t end = std::min(last, (h << bits) | full);
      const bool whole = part.empty() && (first & full) == 0 && (end & full) == full;
      if (whole) {
        const uint32_t until = (last & full) == full ? last >> bits : (last >> bits) - 1;
        told(h, until, std::vector<Range>{{0, full}});
        if (until == last >> bits) break;
        first = (until + 1) << bits;
        continue;
      }
      part.push_back({first & full, end & full});
      if (end == last) break;
      first = end + 1;
    }
  }
  end_part();
}

}  // namespace

int32_t CharacterBytes::add_place(std::vector<Edge> edges) {
  if (edges.empty()) return kNowhere;
  const auto [it, is_new] = known_.try_emplace(edges, static_cast<int32_t>(places_.size()));
  if (is_new) places_.push_back(std::move(edges));
  return it->second;
}

int32_t CharacterBytes::add_tail(const std::vector<Bits>& ranges, int num_bytes) {
  if (ranges.empty()) return kNowhere;
  if (num_bytes == 0) return kComplete;
  std::vector<Edge> edges;
  const auto put = [&](uint32_t first, uint32_t last, const std::vector<Bits>& rest) {
    join(edges, {static_cast<uint8_t>(0x80 | first), static_cast<uint8_t>(0x80 | last),
                 add_tail(rest, num_bytes - 1)});
  };
  split(ranges, kBitsOfByte * (num_bytes - 1), put);
  return add_place(std::move(edges));
}

int32_t CharacterBytes::add(std::span<const CodePointRange> ranges) {
  std::vector<Edge> edges;
  for (const Length& length : kLengths) {
    std::vector<Bits> own;
    for (const auto& [first, last] : ranges) {
      const uint32_t from = std::max<uint32_t>(first, length.first);
      const uint32_t to = std::min<uint32_t>(last, length.last);
      if (from <= to) own.push_back({from, to});
    }
    split(own, kBitsOfByte * length.tail,
          [&](uint32_t first, uint32_t last, const std::vector<Bits>& rest) {
            join(edges, {static_cast<uint8_t>(length.lead | first),
                         static_cast<uint8_t>(length.lead | last), add_tail(rest, length.tail)});
          });
  }
  return add_place(std::move(edges));
}

int32_t CharacterBytes::next(int32_t place, uint8_t byte) const {
  const auto& all = places_[static_cast<size_t>(place)];
  const auto it = std::partition_point(all.begin(), all.end(),
                                       [&](const Edge& edge) { return edge.last < byte; });
  return it != all.end() && it->first <= byte ? it->next : kNowhere;
}

}  // namespace tandem
