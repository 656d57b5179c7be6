// A round: copy my bytes to my slot, count up my `posted`, wait until everybody's has that value,
// read all slots. Slots are double-buffered: who enters round s + 2, and writes the slot of round s
// again, has seen everybody in round s + 1, that is, done with reading round s. So a round has one
// wait and no second one to leave it.
//
// A message: each ordered pair of ranks has a channel of some slots. The sender waits until one is
// free, the receiver until one is full.
#include "parallel/communicators/shared_memory_communicator.h"

#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <string>
#include <utility>

#include "parallel/communicators/round_communicator.h"
#include "parallel/communicators/shared_memory_layout.h"

namespace tandem {
namespace {

using Clock = std::chrono::steady_clock;
using detail::RegionChannel;
using detail::RegionRank;

constexpr std::chrono::microseconds kSpin{50}, kCrowdedSpin{2};
constexpr std::chrono::milliseconds kNap{100};  // how often a sleeper looks around
constexpr int kPausesPerClock = 32;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Not the private futex: ranks may be processes.
void futex_wait(std::atomic<uint32_t>& word, uint32_t seen, std::chrono::nanoseconds time) {
  timespec limit{};
  limit.tv_sec = static_cast<time_t>(time.count() / 1'000'000'000);
  limit.tv_nsec = static_cast<long>(time.count() % 1'000'000'000);
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}
void futex_wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

// Whether a process has ended; a zombie has. Keeps a pidfd from the first look on.
class ProcessWatch {
 public:
  ProcessWatch() = default;
  ~ProcessWatch() {
    if (fd_ >= 0) ::close(fd_);
  }
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  bool has_ended(pid_t pid) {
    if (pid == 0) return false;
    if (fd_ < 0) fd_ = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (fd_ < 0) return errno == ESRCH || (::kill(pid, 0) != 0 && errno == ESRCH);
    pollfd p{fd_, POLLIN, 0};
    return ::poll(&p, 1, 0) > 0 && (p.revents & POLLIN) != 0;
  }

 private:
  int fd_ = -1;
};

class SharedMemoryCommunicator final : public RoundCommunicator {
 public:
  SharedMemoryCommunicator(std::shared_ptr<SharedMemoryRegion> region, int rank,
                           const CommunicatorOptions& options)
      : RoundCommunicator(rank, region->ranks(), region->chunk_bytes()),
        region_(std::move(region)),
        timeout_(options.timeout),
        spin_(options.spin.value_or(crowded() ? kCrowdedSpin : kSpin)),
        watches_(static_cast<size_t>(size())) {}

  // Peers that still wait for this rank hear it.
  ~SharedMemoryCommunicator() override {
    own().state.store(detail::kLeft, std::memory_order_seq_cst);
    futex_wake_all(own().posted);
    wake_channels();
  }

  size_t piece_bytes() const override { return region_->piece_bytes(); }
  const char* transport() const override { return "shared memory"; }

  void abort() override {
    uint32_t none = 0;
    region_->header().aborted.compare_exchange_strong(none, static_cast<uint32_t>(rank()) + 1,
                                                      std::memory_order_seq_cst);
    for (int r = 0; r < size(); ++r) futex_wake_all(region_->rank(r).posted);
    wake_channels();
  }

 protected:
  void check_aborted(Collective call) override {
    if (const uint32_t by = region_->header().aborted.load(std::memory_order_acquire))
      throw error(call, "aborted by rank " + std::to_string(by - 1));
  }

  Parts exchange(const Round& round) override {
    const uint32_t seq = ++seq_;
    const unsigned parity = seq & 1;
    std::byte* const slots = region_->slots(parity);
    round.copy_mine(slots + static_cast<size_t>(rank()) * chunk_bytes());
    const uint64_t call = signature(round);
    own().call[parity].store(call, std::memory_order_relaxed);
    count_up(own().posted, own().sleepers, seq);
    or_abort([&] {
      const ProfileSpan waiting(kWaitForRanks);
      for (int p = 0; p < size(); ++p) {
        if (p == rank()) continue;
        RegionRank& other = region_->rank(p);
        wait_for({other.posted, other.sleepers, seq, p, round.call, /*of_round=*/true});
        const uint64_t theirs = region_->rank(p).call[parity].load(std::memory_order_relaxed);
        if (theirs != call)
          throw error(round.call, "rank " + std::to_string(p) + " is in " + describe(theirs) +
                                      ", this rank in " + describe(call));
      }
    });
    return {slots, chunk_bytes()};
  }

  void send_piece(const Piece& piece) override {
    RegionChannel& channel = region_->channel(rank(), piece.peer);
    const uint32_t sent = channel.sent.load(std::memory_order_relaxed);
    or_abort([&] {
      // The piece that was in the slot.
      wait_for({channel.taken, channel.taken_sleepers, sent + 1 - kPiecesBetween, piece.peer,
                Collective::kSend});
    });
    if (piece.bytes > 0)
      std::memcpy(region_->piece(rank(), piece.peer, sent), piece.data, piece.bytes);
    channel.message[sent % kPiecesBetween].store(piece.message, std::memory_order_relaxed);
    count_up(channel.sent, channel.sent_sleepers, sent + 1);
  }

  void receive_piece(const Piece& piece) override {
    RegionChannel& channel = region_->channel(piece.peer, rank());
    const uint32_t taken = channel.taken.load(std::memory_order_relaxed);
    or_abort([&] {
      const ProfileSpan waiting(kWaitForRanks);
      wait_for({channel.sent, channel.sent_sleepers, taken + 1, piece.peer, Collective::kReceive});
      const uint64_t message =
          channel.message[taken % kPiecesBetween].load(std::memory_order_relaxed);
      if (message != piece.message) throw astray(piece, message);
    });
    if (piece.bytes > 0)
      std::memcpy(piece.data, region_->piece(piece.peer, rank(), taken), piece.bytes);
    count_up(channel.taken, channel.taken_sleepers, taken + 1);
  }

 private:
  // A counter of another rank that is to reach a value.
  struct Awaited {
    std::atomic<uint32_t>& counter;
    std::atomic<uint32_t>& sleepers;
    uint32_t value;
    int peer;
    Collective call;
    bool of_round = false;  // all ranks are to reach it
  };

  static void count_up(std::atomic<uint32_t>& counter, std::atomic<uint32_t>& sleepers,
                       uint32_t value) {
    counter.store(value, std::memory_order_seq_cst);
    if (sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(counter);
  }

  // Nobody shall wait for a group that has come apart.
  template <class F>
  void or_abort(const F& f) {
    try {
      f();
    } catch (...) {
      abort();
      throw;
    }
  }

  void wake_channels() {
    for (int from = 0; from < size(); ++from) {
      for (int to = 0; to < size(); ++to) {
        RegionChannel& channel = region_->channel(from, to);
        if (channel.sent_sleepers.load() != 0) futex_wake_all(channel.sent);
        if (channel.taken_sleepers.load() != 0) futex_wake_all(channel.taken);
      }
    }
  }

  static uint64_t signature(const Round& round) {
    return uint64_t{static_cast<uint8_t>(round.call)} << 56 |
           static_cast<uint64_t>(round.root + 1) << 40 | round.part;
  }
  static std::string describe(uint64_t signature) {
    return std::string(name_of(static_cast<Collective>(signature >> 56))) + " of " +
           std::to_string(signature & ((uint64_t{1} << 40) - 1)) + " bytes";
  }

  RegionRank& own() const { return region_->rank(rank()); }

  // Whether the cores that the ranks may use are fewer than the ranks.
  bool crowded() const {
    cpu_set_t all;
    CPU_ZERO(&all);
    for (int r = 0; r < size(); ++r) CPU_OR(&all, &all, &region_->rank(r).cores);
    return CPU_COUNT(&all) < size();
  }

  static bool reached(uint32_t posted, uint32_t seq) {
    return static_cast<int32_t>(posted - seq) >= 0;
  }

  void wait_for(const Awaited& what) {
    if (reached(what.counter.load(std::memory_order_acquire), what.value)) return;
    const auto start = Clock::now();
    do {
      for (int i = 0; i < kPausesPerClock; ++i) {
        if (reached(what.counter.load(std::memory_order_acquire), what.value)) return;
        pause();
      }
    } while (Clock::now() - start < spin_);
    sleep_until(what, start + timeout_);
  }

  void sleep_until(const Awaited& what, Clock::time_point deadline) {
    // The peer counts up and then looks for sleepers; a sleeper announces itself and then looks.
    struct Sleeper {
      std::atomic<uint32_t>& count;
      explicit Sleeper(std::atomic<uint32_t>& c) : count(c) { count.fetch_add(1); }
      ~Sleeper() { count.fetch_sub(1); }
    } sleeper(what.sleepers);
    for (bool slept = false;; slept = true) {
      const uint32_t seen = what.counter.load();
      if (reached(seen, what.value)) return;
      check_aborted(what.call);
      check_peers(what, slept);
      const auto now = Clock::now();
      if (now >= deadline)
        throw error(what.call, "timed out after " + seconds_text(timeout_) + " waiting for rank " +
                                   std::to_string(what.peer));
      futex_wait(what.counter, seen, std::min<std::chrono::nanoseconds>(kNap, deadline - now));
    }
  }

  // Throws if any rank, not only the one waited for, can no longer come. `processes`: asks the
  // system too.
  void check_peers(const Awaited& what, bool processes) {
    for (int p = 0; p < size(); ++p) {
      if (p == rank()) continue;
      RegionRank& other = region_->rank(p);
      // In this order: a rank that has gone has posted all that it ever will.
      const bool left = other.state.load() == detail::kLeft;
      const bool dead = processes && watches_[static_cast<size_t>(p)].has_ended(other.pid.load());
      if (!left && !dead) continue;
      if (what.of_round ? reached(other.posted.load(), what.value)
                        : left && (p != what.peer || reached(what.counter.load(), what.value)))
        continue;
      throw error(what.call,
                  "rank " + std::to_string(p) + (left ? " has left the group" : "'s process died"));
    }
  }

  std::shared_ptr<SharedMemoryRegion> region_;
  std::chrono::milliseconds timeout_;
  std::chrono::microseconds spin_;
  std::vector<ProcessWatch> watches_;
  uint32_t seq_ = 0;
};

}  // namespace

std::unique_ptr<Communicator> make_shared_memory_communicator(
    std::shared_ptr<SharedMemoryRegion> region, int rank, const CommunicatorOptions& options) {
  TANDEM_CHECK(rank >= 0 && rank < region->ranks());
  if (!region->all_joined()) throw CommunicatorError("shared memory: not all ranks have joined");
  return std::make_unique<SharedMemoryCommunicator>(std::move(region), rank, options);
}

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(
    int ranks, const CommunicatorOptions& options) {
  TANDEM_CHECK_GE(ranks, 1);
  std::vector<std::unique_ptr<Communicator>> out;
  if (ranks == 1) {
    out.push_back(make_local_communicator());
    return out;
  }
  const auto region = SharedMemoryRegion::create_private(ranks, options.chunk_bytes);
  for (int r = 0; r < ranks; ++r) region->join(r);
  for (int r = 0; r < ranks; ++r)
    out.push_back(make_shared_memory_communicator(region, r, options));
  return out;
}

}  // namespace tandem
