// Ranks on one host, threads or processes, that share a block of memory. It has no name in the file
// system or in /dev/shm, so nothing is left behind however the ranks end.
//
// Threads:    auto comms = make_thread_communicators(n);
// Processes: rank 0 calls create_shared() and tells the others its pid and fd(). They open() it.
//             All ranks join(), pass any barrier, and make their communicator.
#pragma once

#include <sys/types.h>

#include <memory>
#include <vector>

#include "parallel/communicators/communicator.h"

namespace tandem {

namespace detail {
struct RegionHeader;
struct RegionRank;
struct RegionChannel;
}  // namespace detail

// The block of memory of one group; unmapped with the last reference.
class SharedMemoryRegion {
 public:
  // For threads of this process.
  static std::shared_ptr<SharedMemoryRegion> create_private(int ranks, size_t chunk_bytes);
  // For processes: a memfd whose size is sealed.
  static std::shared_ptr<SharedMemoryRegion> create_shared(int ranks, size_t chunk_bytes);
  // Maps descriptor `fd` of process `pid` (same user, same host, same pid namespace). Throws
  // CommunicatorError if it cannot be opened or is not the region of a group of `ranks` ranks with
  // such chunks.
  static std::shared_ptr<SharedMemoryRegion> open(pid_t pid, int fd, int ranks, size_t chunk_bytes);
  ~SharedMemoryRegion();
  SharedMemoryRegion(const SharedMemoryRegion&) = delete;
  SharedMemoryRegion& operator=(const SharedMemoryRegion&) = delete;

  int ranks() const { return ranks_; }
  size_t chunk_bytes() const { return chunk_bytes_; }
  // The memfd of create_shared(), until close_fd(); else -1.
  int fd() const { return fd_; }
  // When all have opened it, the mapping is enough.
  void close_fd();
  // Enters this process (its pid, its cores) as `rank`. Before the communicator is made.
  void join(int rank);
  bool all_joined() const;
  // Waits until all ranks have joined, for groups without another barrier. Throws
  // CommunicatorError.
  void wait_until_all_joined(std::chrono::milliseconds timeout) const;

  // For the communicator.
  detail::RegionHeader& header() const;
  detail::RegionRank& rank(int r) const;
  std::byte* slots(unsigned parity) const;  // [ranks, chunk_bytes]
  detail::RegionChannel& channel(int from, int to) const;
  std::byte* piece(int from, int to, uint32_t number) const;  // [piece_bytes]
  // Of a slot of a channel, at least 1 KiB: a rank's channels take kPiecesBetween chunks.
  size_t piece_bytes() const { return piece_bytes_of(ranks_, chunk_bytes_); }

 private:
  SharedMemoryRegion(void* memory, size_t bytes, int fd, int ranks, size_t chunk_bytes)
      : memory_(memory), bytes_(bytes), fd_(fd), ranks_(ranks), chunk_bytes_(chunk_bytes) {}
  static size_t bytes_for(int ranks, size_t chunk_bytes);
  static size_t piece_bytes_of(int ranks, size_t chunk_bytes);
  void format() const;

  void* memory_;
  size_t bytes_;
  int fd_;
  int ranks_;
  size_t chunk_bytes_;
};

// After every rank has joined the region. Of the options only timeout and spin count.
std::unique_ptr<Communicator> make_shared_memory_communicator(
    std::shared_ptr<SharedMemoryRegion> region, int rank, const CommunicatorOptions& options = {});

// A group of threads of this process: element r is rank r's, to be used by one thread. A group of
// one is the local communicator.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int ranks, const CommunicatorOptions& options = {});

}  // namespace tandem
