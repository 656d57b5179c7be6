// Barriers know who has read what a phase brought, and threads who has gone on since: by meetings
// of the block or a warp, and by arrivals that they waited for.
#include "bulk_copies.h"

#include <algorithm>
#include <cstring>

#include "block.h"

namespace cuda_emulator {

void BulkCopies::make(const uint64_t* at, unsigned arrivals) {
  if (!block_.is_shared(at, sizeof *at) || reinterpret_cast<uintptr_t>(at) % sizeof *at != 0)
    block_.fail("a copy barrier that is not 8 aligned bytes of shared memory");
  if (arrivals == 0) block_.fail("a copy barrier without arrivals");
  if (barriers_.contains(at)) block_.fail("a copy barrier is made twice");
  Barrier barrier{};
  barrier.arrivals = barrier.missing = arrivals;
  barrier.maker = block_.running_index();
  barrier.known.resize(block_.num_threads());
  barriers_.emplace(at, std::move(barrier));
}

void BulkCopies::made() {
  for (auto& [at, barrier] : barriers_) barrier.made |= barrier.maker == block_.running_index();
}

BulkCopies::Barrier& BulkCopies::find(const uint64_t* at, const char* what) {
  block_.need_waited(what);
  const auto found = barriers_.find(at);
  if (found == barriers_.end()) block_.fail(std::string("no copy barrier is there: ") + what);
  if (!found->second.made)
    block_.fail(std::string("copy_barriers_made was not called before what ") + what);
  return found->second;
}

BulkCopies::Threads BulkCopies::known_to(unsigned thread, const Barrier& barrier) {
  Threads known = barrier.known[thread];
  if (barrier.readers[thread]) known.set(thread);
  return known;
}

void BulkCopies::arrive(const uint64_t* at, uint64_t bytes) {
  block_.maybe_yield();
  Barrier& barrier = find(at, "arrives at a copy barrier");
  if (barrier.missing == 0) block_.fail("more arrivals than a copy barrier is made for");
  if (bytes >= 1 << 20) block_.fail("a copy barrier expects 2^20 bytes or more");
  for (const auto& [other, of] : barriers_)
    if (of.readers.any()) barrier.arriving[other] |= known_to(block_.running_index(), of);
  barrier.bytes += static_cast<int64_t>(bytes);
  --barrier.missing;
  settle(at, barrier);
}

// Ends the phase if nothing is missing.
void BulkCopies::settle(const uint64_t* at, Barrier& barrier) {
  if (barrier.missing > 0) return;
  if (barrier.bytes < 0) block_.fail("more bytes come than a copy barrier expects");
  if (barrier.bytes > 0) return;
  ++barrier.phase;
  barrier.missing = barrier.arrivals;
  barrier.filled = false;
  for (const auto& [other, threads] : barrier.arriving) barrier.carried[other] |= threads;
  barrier.arriving.clear();
  forget_readers(at, barrier);
  for (const unsigned thread : std::exchange(barrier.waiting, {})) block_.wake(thread);
}

void BulkCopies::wait(const uint64_t* at, unsigned parity) {
  block_.maybe_yield();
  Barrier& barrier = find(at, "waits for a copy barrier");
  if (parity > 1) block_.fail("the parity of a phase is 0 or 1");
  while ((barrier.phase & 1) == parity) {
    barrier.waiting.push_back(block_.running_index());
    block_.wait_for_phase();
  }
  const unsigned self = block_.running_index();
  for (Copy& place : places_)
    if (place.barrier == at && place.phase < barrier.phase) place.seen.set(self);
  if (barrier.filled)
    block_.fail(
        "a thread comes for bytes whose place is being filled again: it was not waited for");
  if (barrier.readers[self]) {  // it reads once more
    for (Threads& known : barrier.known) known.reset(self);
    for (auto& [rank, known] : told_)
      if (const auto of = known.find(at); of != known.end()) of->second.reset(self);
  }
  barrier.readers.set(self);
  for (const auto& [other, threads] : barrier.carried) barriers_.at(other).known[self] |= threads;
}

void BulkCopies::forget_readers(const uint64_t* at, Barrier& barrier) {
  if (barrier.readers.none()) return;
  barrier.readers.reset();
  std::fill(barrier.known.begin(), barrier.known.end(), Threads());
  for (auto& [other, of] : barriers_) {
    of.arriving.erase(at);
    of.carried.erase(at);
  }
  for (auto& [rank, known] : told_) known.erase(at);
}

void BulkCopies::copy(void* to, const void* from, size_t bytes, const uint64_t* at) {
  block_.maybe_yield();
  find(at, "copies in bulk");
  if (reinterpret_cast<uintptr_t>(to) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0)
    block_.fail("a bulk copy that is not 16-byte aligned");
  if (bytes == 0 || bytes % 16 != 0) block_.fail("a bulk copy of no multiple of 16 bytes");
  add({to, bytes, at, [=](unsigned char* there) { std::memcpy(there, from, bytes); }, 0, {}});
}

void BulkCopies::copy_box(const BoxCopy& copy, int from) {
  constexpr int kColumns = 64, kElement = 2, kPiece = 8;
  if (from == kOwn) {
    block_.maybe_yield();
    find(copy.barrier, "copies a box");
  }
  if (reinterpret_cast<uintptr_t>(copy.tile) % 1024 != 0)
    block_.fail("a tile that does not begin at a multiple of 1024 bytes");
  const auto fill = [copy](unsigned char* there) {
    const TensorMatrix& m = copy.matrix;
    for (int r = 0; r < m.box_rows; ++r)
      for (int c = 0; c < kColumns; ++c) {
        const int piece = c / kPiece ^ r % 8;
        unsigned char* to = there + (r * kColumns + piece * kPiece + c % kPiece) * kElement;
        const int64_t row = int64_t{copy.row} + r, column = int64_t{copy.column} + c;
        std::memset(to, 0, kElement);
        if (row >= 0 && row < m.rows && column >= 0 && column < m.columns)
          std::memcpy(to, m.first + row * m.pitch + column * kElement, kElement);
      }
  };
  const size_t bytes = static_cast<size_t>(copy.matrix.box_rows) * kColumns * kElement;
  add({copy.tile, bytes, copy.barrier, fill, 0, {}}, from);
}

void BulkCopies::arrive_from_afar(const uint64_t* at) {
  const auto found = barriers_.find(at);
  if (found == barriers_.end()) block_.fail("another block arrives where no copy barrier is");
  if (found->second.missing == 0) block_.fail("more arrivals than a copy barrier is made for");
  --found->second.missing;
  settle(at, found->second);
}

void BulkCopies::tell(unsigned rank) {
  for (const auto& [at, barrier] : barriers_)
    if (barrier.readers.any())
      told_[static_cast<int>(rank)][at] |= known_to(block_.running_index(), barrier);
}

void BulkCopies::add(Copy copy, int from) {
  const auto found = barriers_.find(copy.barrier);
  if (found == barriers_.end()) block_.fail("another block copies where no copy barrier is");
  Barrier& barrier = found->second;
  copy.phase = barrier.phase;
  if (!block_.is_shared(copy.to, copy.bytes))
    block_.fail("a bulk copy to what is not shared memory");
  if (is_coming(copy.to, copy.bytes)) block_.fail("two bulk copies to one place");
  need_met(copy.barrier, from);
  for (const Copy& other : places_) {  // that another barrier has counted
    const Barrier& of = barriers_.at(other.barrier);
    if (other.barrier == copy.barrier || !overlap(other, copy.to, copy.bytes)) continue;
    if (of.phase == other.phase) block_.fail("two bulk copies to one place");
    if (of.phase == other.phase + 1) need_met(other.barrier, from);
  }
  block_.warp_groups().need_unread(copy.to, copy.bytes);
  barrier.filled = true;
  std::memset(copy.to, 0xff, copy.bytes);
  block_.warp_groups().copied(copy.to, copy.bytes);
  copies_.push_back(std::move(copy));
}

bool BulkCopies::is_coming(const void* at, size_t bytes) const {
  return std::ranges::any_of(copies_, [&](const Copy& c) { return overlap(c, at, bytes); });
}

void BulkCopies::need_seen(const void* at, size_t bytes) const {
  const unsigned first = block_.running_index() / kWarp * kWarp;
  const bool unseen = std::ranges::any_of(places_, [&](const Copy& copy) {
    Threads warp;
    for (unsigned i = first; i < first + kWarp; ++i) warp.set(i);
    return overlap(copy, at, bytes) && (warp & ~copy.seen).any();
  });
  if (unseen || is_coming(at, bytes))
    block_.fail("a tile is read whose copy has not been waited for");
}

// Whoever waited for the phase before has met the thread that runs since, or told the block that
// copies.
void BulkCopies::need_met(const uint64_t* at, int from) const {
  const Barrier& barrier = barriers_.at(at);
  Threads known;
  if (from == kOwn) {
    known = known_to(block_.running_index(), barrier);
  } else if (const auto told = told_.find(from); told != told_.end()) {
    if (const auto of = told->second.find(at); of != told->second.end()) known = of->second;
  }
  const Threads late = barrier.readers & ~known;
  for (unsigned i = 0; i < late.size(); ++i)
    if (late[i] && !block_.has_ended(i))
      block_.fail("a place is filled again, and thread " + std::to_string(i) +
                  ", who waited for what was there, has not been met since");
}

bool BulkCopies::overlap(const Copy& copy, const void* at, size_t bytes) {
  const auto *first = static_cast<const char*>(copy.to), *other = static_cast<const char*>(at);
  return first < other + bytes && other < first + copy.bytes;
}

void BulkCopies::happen() {
  const size_t i = block_.random().below(static_cast<uint32_t>(copies_.size()));
  const Copy copy = std::move(copies_[i]);
  if (i + 1 < copies_.size()) copies_[i] = std::move(copies_.back());
  copies_.pop_back();
  copy.fill(static_cast<unsigned char*>(copy.to));
  block_.warp_groups().copied(copy.to, copy.bytes);
  std::erase_if(places_, [&](const Copy& other) { return overlap(other, copy.to, copy.bytes); });
  places_.push_back(copy);
  Barrier& barrier = barriers_.at(copy.barrier);
  if (barrier.phase != copy.phase) block_.fail("bytes come behind the phase that they are of");
  barrier.bytes -= static_cast<int64_t>(copy.bytes);
  settle(copy.barrier, barrier);
}

void BulkCopies::all_met() {
  for (Copy& place : places_)
    if (place.seen.any()) place.seen.set();
  for (auto& [at, barrier] : barriers_) forget_readers(at, barrier);
}

void BulkCopies::met(unsigned first, uint32_t mask) {
  const Threads met(uint64_t{mask});
  for (Copy& place : places_)
    if ((place.seen & met << first).any()) place.seen |= met << first;
  for (auto& [at, barrier] : barriers_) {
    if (barrier.readers.none()) continue;
    Threads all;
    for (unsigned i = 0; i < kWarp; ++i)
      if (mask >> i & 1) all |= known_to(first + i, barrier);
    for (unsigned i = 0; i < kWarp; ++i)
      if (mask >> i & 1) barrier.known[first + i] = all;
  }
}

void BulkCopies::end_block() {
  if (any()) block_.fail("a block ends while bulk copies are under way");
  barriers_.clear();
  places_.clear();
  told_.clear();
}

std::string BulkCopies::missing() const {
  std::string text;
  for (const auto& [at, barrier] : barriers_)
    if (!barrier.waiting.empty())
      text += "\n    a copy barrier lacks " + std::to_string(barrier.missing) + " arrivals and " +
              std::to_string(barrier.bytes) + " bytes of phase " + std::to_string(barrier.phase);
  return text;
}

}  // namespace cuda_emulator
