// Making, opening and checking the memory of a group (shared_memory_communicator.h).
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include "parallel/communicators/round_communicator.h"
#include "parallel/communicators/shared_memory_communicator.h"
#include "parallel/communicators/shared_memory_layout.h"

namespace tandem {
namespace {

using detail::RegionChannel;
using detail::RegionHeader;
using detail::RegionRank;

constexpr size_t kLineBytes = 64, kLeastPiece = 1024;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

CommunicatorError system_error(const std::string& what) {
  return CommunicatorError("shared memory: " + what + ": " + std::strerror(errno));
}

// A descriptor that is closed unless released.
struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
  int release() {
    const int out = fd;
    fd = -1;
    return out;
  }
};

void* map(size_t bytes, int fd, const std::string& what) {
  const int flags = fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED)
    throw system_error("cannot map " + std::to_string(bytes) + " bytes of " + what);
  return memory;
}

void check_header(const RegionHeader& header, const std::string& where, int ranks,
                  size_t chunk_bytes) {
  const auto expect = [&](const char* what, uint64_t found, uint64_t wanted) {
    if (found != wanted)
      throw CommunicatorError("shared memory: " + where + ": " + what + " is " +
                              std::to_string(found) + ", expected " + std::to_string(wanted));
  };
  expect("magic", header.magic, detail::kRegionMagic);
  expect("version", header.version, detail::kRegionVersion);
  expect("number of ranks", header.ranks, static_cast<uint64_t>(ranks));
  expect("chunk size", header.chunk_bytes, chunk_bytes);
}

}  // namespace

size_t SharedMemoryRegion::bytes_for(int ranks, size_t chunk_bytes) {
  TANDEM_CHECK(ranks >= 1 && ranks <= kMaxRanks);
  const auto n = static_cast<size_t>(ranks);
  return sizeof(RegionHeader) + n * (sizeof(RegionRank) + 2 * chunk_bytes) +
         n * n * (sizeof(RegionChannel) + kPiecesBetween * piece_bytes_of(ranks, chunk_bytes));
}

size_t SharedMemoryRegion::piece_bytes_of(int ranks, size_t chunk_bytes) {
  return std::max(kLeastPiece, chunk_bytes / static_cast<size_t>(ranks) / kLineBytes * kLineBytes);
}

std::shared_ptr<SharedMemoryRegion> SharedMemoryRegion::create_private(int ranks,
                                                                       size_t chunk_bytes) {
  chunk_bytes = rounded_chunk(chunk_bytes);
  const size_t bytes = bytes_for(ranks, chunk_bytes);
  std::shared_ptr<SharedMemoryRegion> region(
      new SharedMemoryRegion(map(bytes, -1, "anonymous memory"), bytes, -1, ranks, chunk_bytes));
  region->format();
  return region;
}

std::shared_ptr<SharedMemoryRegion> SharedMemoryRegion::create_shared(int ranks,
                                                                      size_t chunk_bytes) {
  chunk_bytes = rounded_chunk(chunk_bytes);
  const size_t bytes = bytes_for(ranks, chunk_bytes);
  Descriptor file{::memfd_create("tandem", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (file.fd < 0) throw system_error("memfd_create");
  if (::ftruncate(file.fd, static_cast<off_t>(bytes)) != 0)
    throw system_error("cannot make " + std::to_string(bytes) + " bytes");
  // Nobody can cut the file under a mapping, which would kill who reads there.
  if (::fcntl(file.fd, F_ADD_SEALS, kSeals) != 0) throw system_error("cannot seal the memfd");
  void* memory = map(bytes, file.fd, "the memfd");
  std::shared_ptr<SharedMemoryRegion> region(
      new SharedMemoryRegion(memory, bytes, file.release(), ranks, chunk_bytes));
  region->format();
  return region;
}

std::shared_ptr<SharedMemoryRegion> SharedMemoryRegion::open(pid_t pid, int fd, int ranks,
                                                             size_t chunk_bytes) {
  chunk_bytes = rounded_chunk(chunk_bytes);
  const size_t bytes = bytes_for(ranks, chunk_bytes);
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd);
  // Asking for the seals first: opening a strange FIFO or device could block or have effects.
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) throw system_error(path);
  if (!S_ISREG(info.st_mode) || info.st_size != static_cast<off_t>(bytes))
    throw CommunicatorError("shared memory: " + path + " has " + std::to_string(info.st_size) +
                            " bytes, a region of " + std::to_string(ranks) + " ranks has " +
                            std::to_string(bytes));
  Descriptor file{::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOCTTY)};
  if (file.fd < 0) throw system_error("cannot open " + path);
  const int seals = ::fcntl(file.fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    throw CommunicatorError("shared memory: " + path + " is not a memfd of fixed size");
  if (::fstat(file.fd, &info) != 0 || info.st_size != static_cast<off_t>(bytes))
    throw CommunicatorError("shared memory: " + path + " changed while it was opened");
  std::shared_ptr<SharedMemoryRegion> region(
      new SharedMemoryRegion(map(bytes, file.fd, path), bytes, -1, ranks, chunk_bytes));
  check_header(region->header(), path, ranks, chunk_bytes);
  return region;
}

SharedMemoryRegion::~SharedMemoryRegion() {
  close_fd();
  ::munmap(memory_, bytes_);
}

void SharedMemoryRegion::close_fd() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void SharedMemoryRegion::format() const {
  auto* header = new (memory_) RegionHeader{};
  for (int r = 0; r < ranks_; ++r) new (&rank(r)) RegionRank{};
  for (int r = 0; r < ranks_; ++r)
    for (int to = 0; to < ranks_; ++to) new (&channel(r, to)) RegionChannel{};
  header->version = detail::kRegionVersion;
  header->ranks = static_cast<uint32_t>(ranks_);
  header->chunk_bytes = chunk_bytes_;
  header->shared = fd_ >= 0;
  header->magic = detail::kRegionMagic;
}

void SharedMemoryRegion::join(int r) {
  TANDEM_CHECK(r >= 0 && r < ranks_);
  RegionRank& own = rank(r);
  CPU_ZERO(&own.cores);
  if (::sched_getaffinity(0, sizeof own.cores, &own.cores) != 0) CPU_ZERO(&own.cores);
  own.pid.store(header().shared ? static_cast<int32_t>(::getpid()) : 0, std::memory_order_relaxed);
  own.state.store(detail::kJoined, std::memory_order_release);
}

bool SharedMemoryRegion::all_joined() const {
  for (int r = 0; r < ranks_; ++r)
    if (rank(r).state.load(std::memory_order_acquire) == detail::kAbsent) return false;
  return true;
}

void SharedMemoryRegion::wait_until_all_joined(std::chrono::milliseconds timeout) const {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (int r = 0; r < ranks_; ++r) {
    while (rank(r).state.load(std::memory_order_acquire) == detail::kAbsent) {
      if (std::chrono::steady_clock::now() >= deadline)
        throw CommunicatorError("shared memory: rank " + std::to_string(r) + " has not joined in " +
                                std::to_string(timeout.count()) + " ms");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }
}

RegionHeader& SharedMemoryRegion::header() const { return *static_cast<RegionHeader*>(memory_); }

RegionRank& SharedMemoryRegion::rank(int r) const {
  auto* first = static_cast<std::byte*>(memory_) + sizeof(RegionHeader);
  return reinterpret_cast<RegionRank*>(first)[r];
}

RegionChannel& SharedMemoryRegion::channel(int from, int to) const {
  return reinterpret_cast<RegionChannel*>(&rank(0) + ranks_)[from * ranks_ + to];
}

std::byte* SharedMemoryRegion::piece(int from, int to, uint32_t number) const {
  const auto at =
      static_cast<size_t>(from * ranks_ + to) * kPiecesBetween + number % kPiecesBetween;
  return slots(0) + 2 * static_cast<size_t>(ranks_) * chunk_bytes_ + at * piece_bytes();
}

std::byte* SharedMemoryRegion::slots(unsigned parity) const {
  auto* first = reinterpret_cast<std::byte*>(&channel(0, 0) + ranks_ * ranks_);
  return first + static_cast<size_t>(parity) * static_cast<size_t>(ranks_) * chunk_bytes_;
}

}  // namespace tandem
