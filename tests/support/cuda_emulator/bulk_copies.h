// Bulk copies to shared memory and the barriers that count their bytes. A part of the scheduler.
//
// A copy happens when no thread can go on, or at any time before. Its place holds 0xFF until then.
// Faults that hardware shows now and then end the process here. A barrier is used before it is
// made. Nobody expects the bytes. A place is filled again while a thread that waited for what was
// in it may still read there. A block ends too soon.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "cuda_emulator.h"

namespace cuda_emulator {

class Block;

// A box of a matrix as a tile.
struct BoxCopy {
  void* tile;
  TensorMatrix matrix;
  int row, column;
  const uint64_t* barrier;
};

class BulkCopies {
 public:
  using Threads = std::bitset<1024>;

  explicit BulkCopies(Block& block) : block_(block) {}

  void make(const uint64_t* at, unsigned arrivals);
  void made();
  void arrive(const uint64_t* at, uint64_t bytes);
  void wait(const uint64_t* at, unsigned parity);
  void copy(void* to, const void* from, size_t bytes, const uint64_t* at);
  // from: the block of the cluster that asks, if it is another one.
  void copy_box(const BoxCopy& copy, int from = kOwn);
  void arrive_from_afar(const uint64_t* at);
  // Block `rank` learns what the running thread knows.
  void tell(unsigned rank);
  // What the threads of the running warp have not waited for may not be there.
  void need_seen(const void* at, size_t bytes) const;

  bool any() const { return !copies_.empty(); }
  // Lets one of them, any, happen.
  void happen();
  // Threads have met: each knows what the others have done. All of the block; of a warp, whose
  // first thread this is, those in the mask.
  void all_met();
  void met(unsigned first, uint32_t mask);
  void end_block();
  // What those wait for who wait.
  std::string missing() const;

 private:
  // By barrier: the readers that are known to have gone on since.
  using Known = std::map<const uint64_t*, Threads>;

  struct Barrier {
    unsigned arrivals, missing;  // of a phase; of them, in this one
    unsigned maker;
    bool made = false;    // others may know it
    int64_t bytes = 0;    // expected, and not there
    uint64_t phase = 0;   // its number
    bool filled = false;  // copies of this phase have been issued
    Threads readers;      // who waited for the phase before, and may not have met all others since
    std::vector<Threads> known;  // by thread: readers who, as it knows, have gone on since
    std::vector<unsigned> waiting;
    Known arriving, carried;  // what arrivals of this phase know; of those before: who waits learns
  };
  struct Copy {
    void* to;
    size_t bytes;
    const uint64_t* barrier;
    std::function<void(unsigned char* to)> fill;
    uint64_t phase;
    Threads seen;  // who has waited for the phase, or met one who has
  };

  static constexpr int kOwn = -1;
  void add(Copy copy, int from = kOwn);
  Barrier& find(const uint64_t* at, const char* what);
  void settle(const uint64_t* at, Barrier& barrier);
  void forget_readers(const uint64_t* at, Barrier& barrier);
  void need_met(const uint64_t* at, int from) const;
  static bool overlap(const Copy& copy, const void* at, size_t bytes);
  bool is_coming(const void* at, size_t bytes) const;
  static Threads known_to(unsigned thread, const Barrier& barrier);

  Block& block_;
  std::map<const uint64_t*, Barrier> barriers_;
  std::vector<Copy> copies_;   // under way
  std::map<int, Known> told_;  // to other blocks of the cluster
  std::vector<Copy> places_;   // the last that came to each place
};

}  // namespace cuda_emulator
