// What lies in a SharedMemoryRegion: a header, one block per rank, one channel per ordered pair of
// ranks, two slots per rank, and kPiecesBetween per channel.
#pragma once

#include <sched.h>

#include <atomic>
#include <cstdint>

#include "parallel/communicators/round_communicator.h"

namespace tandem::detail {

static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

inline constexpr uint64_t kRegionMagic = 0x31304d45444e4154;  // "TANDEM01"
inline constexpr uint32_t kRegionVersion = 3;

enum RankState : uint32_t { kAbsent, kJoined, kLeft };

struct alignas(128) RegionHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t ranks;
  uint64_t chunk_bytes;
  uint32_t shared;  // 1: between processes
  // 0, or 1 + the rank whose end aborted the group.
  alignas(64) std::atomic<uint32_t> aborted;
};

// Written by its rank, read by the others.
struct alignas(128) RegionRank {
  std::atomic<uint32_t> posted;  // rounds that the rank has entered, modulo 2^32; a futex
  std::atomic<uint32_t> state;   // RankState
  // What the rank calls in the rounds of each parity; tells apart ranks that went astray.
  std::atomic<uint64_t> call[2];
  // Ranks that sleep on `posted`; on a line of its own, because they write it.
  alignas(64) std::atomic<uint32_t> sleepers;
  alignas(64) std::atomic<int32_t> pid;  // 0: a thread of the same process
  cpu_set_t cores;                       // its affinity when it joined
};

// Messages of one rank to another. The sender writes a piece to one of the slots, in turn, and
// counts up; the receiver reads it and counts up.
struct alignas(128) RegionChannel {
  std::atomic<uint32_t> sent;  // pieces, modulo 2^32; a futex
  // By slot: bytes of the message that the piece is of.
  std::atomic<uint64_t> message[kPiecesBetween];
  alignas(64) std::atomic<uint32_t> sent_sleepers;
  alignas(64) std::atomic<uint32_t> taken;  // a futex
  alignas(64) std::atomic<uint32_t> taken_sleepers;
};

}  // namespace tandem::detail
