// Collectives over MPI: a round is one non-blocking all-gather (broadcast, barrier). MPI's own
// reductions are not used, because their order of additions is not ours. abort() reaches the others
// as a message that they probe for while they wait. Messages from rank to rank are copied, so that
// some of them may be under way to each rank while the sender goes on.
#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/communicators/mpi_internal.h"
#include "parallel/communicators/round_communicator.h"

namespace tandem {
namespace mpi {

void check(int code, const std::string& what) {
  if (code == kSuccess) return;
  char text[512];
  calls().error_string(code, text, sizeof text);
  throw CommunicatorError(what + ": MPI: " + text);
}

bool wait(Handle& request, std::chrono::milliseconds timeout, std::chrono::microseconds spin,
          const std::function<void()>& look_around) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds kShortest{10}, kLongest{1000};
  const auto start = Clock::now();
  auto nap = kShortest;
  for (int polls = 1;; ++polls) {
    int done = 0;
    check(calls().test(&request, &done), "MPI_Test");
    if (done) return true;
    if (polls % 16 != 0) continue;
    const auto waited = Clock::now() - start;
    if (waited > timeout) return false;
    look_around();
    if (waited < spin) continue;
    std::this_thread::sleep_for(nap);
    nap = std::min(kLongest, nap * 5 / 4);
  }
}

void keep_for_ever(std::shared_ptr<void> buffers) {
  struct Kept {
    Mutex mutex;
    std::vector<std::shared_ptr<void>> buffers GUARDED_BY(mutex);
  };
  static Kept& kept = *new Kept;
  const MutexLock lock(kept.mutex);
  kept.buffers.push_back(std::move(buffers));
}

}  // namespace mpi

namespace {

constexpr std::chrono::microseconds kDefaultSpin{50};
constexpr int kAbortTag = 1, kPieceTag = 2;
constexpr size_t kPieceHead = sizeof(uint64_t);  // in front of a piece: bytes of its message

class MpiCommunicator final : public RoundCommunicator {
 public:
  MpiCommunicator(mpi::Handle comm, int rank, int size, const CommunicatorOptions& options,
                  std::shared_ptr<std::atomic<bool>> broken)
      : RoundCommunicator(rank, size, rounded_chunk(options.chunk_bytes)),
        comm_(comm),
        timeout_(options.timeout),
        spin_(options.spin.value_or(kDefaultSpin)),
        broken_(std::move(broken)),
        buffers_(std::make_shared<Buffers>()),
        sends_(static_cast<size_t>(size)) {
    buffers_->mine.resize(chunk_bytes());
    buffers_->all.resize(chunk_bytes() * static_cast<size_t>(size));
  }

  ~MpiCommunicator() override {
    int finalized = 0;
    mpi::calls().finalized(&finalized);
    for (Sends& sends : sends_)
      for (Sending& sending : sends.slots) end(sending, finalized);
    if (!finalized && !*broken_) mpi::calls().comm_free(&comm_);
  }

  size_t piece_bytes() const override { return chunk_bytes(); }
  const char* transport() const override { return "MPI"; }

  // From any thread: MPI was initialised for several.
  void abort() override {
    uint32_t none = 0;
    if (!aborted_.compare_exchange_strong(none, static_cast<uint32_t>(rank()) + 1)) return;
    *broken_ = true;
    for (int p = 0; p < size(); ++p) {
      if (p == rank()) continue;
      mpi::Handle request = mpi::calls().no_request;
      // No byte, so it needs no buffer, and nobody waits for it.
      if (mpi::calls().isend_nothing(p, kAbortTag, comm_, &request) == mpi::kSuccess)
        mpi::calls().request_free(&request);
    }
  }

 protected:
  void check_aborted(Collective call) override {
    if (aborted_ == 0) {
      int there = 0, from = 0;
      mpi::check(mpi::calls().iprobe(kAbortTag, comm_, &there, &from), "MPI_Iprobe");
      if (!there) return;
      uint32_t none = 0;
      aborted_.compare_exchange_strong(none, static_cast<uint32_t>(from) + 1);
    }
    *broken_ = true;
    throw error(call, "aborted by rank " + std::to_string(aborted_ - 1));
  }

  Parts exchange(const Round& round) override {
    mpi::Handle request = mpi::calls().no_request;
    or_break(buffers_, [&] {
      start(round, request);
      if (!mpi::wait(request, timeout_, spin_, [&] { check_aborted(round.call); }))
        throw error(round.call,
                    "timed out after " + seconds_text(timeout_) + " waiting for the other ranks");
    });
    return {buffers_->all.data(), round.part};
  }

  void send_piece(const Piece& piece) override {
    auto& [slots, next] = sends_[static_cast<size_t>(piece.peer)];
    Sending& sending = slots[next++ % kPiecesBetween];  // the oldest one
    finish(sending.request, sending.bytes, piece.peer, Collective::kSend);
    if (!sending.bytes) sending.bytes = std::make_shared<std::vector<std::byte>>();
    sending.bytes->resize(kPieceHead + piece.bytes);
    const uint64_t message = piece.message;
    std::memcpy(sending.bytes->data(), &message, kPieceHead);
    if (piece.bytes > 0) std::memcpy(sending.bytes->data() + kPieceHead, piece.data, piece.bytes);
    or_break(sending.bytes, [&] {
      mpi::check(mpi::calls().isend(sending.bytes->data(), static_cast<int>(sending.bytes->size()),
                                    piece.peer, kPieceTag, comm_, &sending.request),
                 "MPI_Isend");
    });
  }

  void receive_piece(const Piece& piece) override {
    if (!received_) received_ = std::make_shared<std::vector<std::byte>>();
    received_->resize(kPieceHead + chunk_bytes());  // a longer one of a rank that went astray fits
    mpi::Handle request = mpi::calls().no_request;
    or_break(received_, [&] {
      mpi::check(mpi::calls().irecv(received_->data(), static_cast<int>(received_->size()),
                                    piece.peer, kPieceTag, comm_, &request),
                 "MPI_Irecv");
    });
    {
      const ProfileSpan waiting(kWaitForRanks);
      finish(request, received_, piece.peer, Collective::kReceive);
    }
    uint64_t message = 0;
    std::memcpy(&message, received_->data(), kPieceHead);
    if (message != piece.message) or_break(received_, [&] { throw astray(piece, message); });
    if (piece.bytes > 0) std::memcpy(piece.data, received_->data() + kPieceHead, piece.bytes);
  }

 private:
  struct Buffers {
    std::vector<std::byte> mine, all;
  };
  using Bytes = std::shared_ptr<std::vector<std::byte>>;
  // A piece under way to another rank, or nothing.
  struct Sending {
    mpi::Handle request = mpi::calls().no_request;
    Bytes bytes = {};
  };
  // To one rank, in turn.
  struct Sends {
    std::array<Sending, kPiecesBetween> slots;
    uint32_t next = 0;
  };

  // If f throws, nothing of the group goes on; MPI may still use the buffers.
  template <class F>
  void or_break(const std::shared_ptr<void>& buffers, const F& f) {
    try {
      f();
    } catch (...) {
      mpi::keep_for_ever(buffers);
      *broken_ = true;
      abort();
      throw;
    }
  }

  void finish(mpi::Handle& request, const Bytes& bytes, int peer, Collective call) {
    if (request == mpi::calls().no_request) return;
    or_break(bytes, [&] {
      if (!mpi::wait(request, timeout_, spin_, [&] { check_aborted(call); }))
        throw error(call, "timed out after " + seconds_text(timeout_) + " waiting for rank " +
                              std::to_string(peer));
    });
  }

  // What was sent in time has arrived: its receiver has done all that it was to do.
  void end(Sending& sending, int finalized) {
    if (sending.request == mpi::calls().no_request) return;
    int done = 0;
    if (!finalized && !*broken_) mpi::calls().test(&sending.request, &done);
    if (done == 0) mpi::keep_for_ever(sending.bytes);
  }

  void start(const Round& round, mpi::Handle& request) {
    const int part = static_cast<int>(round.part);
    if (round.call == Collective::kBarrier) {
      mpi::check(mpi::calls().ibarrier(comm_, &request), "MPI_Ibarrier");
    } else if (round.call == Collective::kBroadcast) {
      std::byte* at = buffers_->all.data() + static_cast<size_t>(round.root) * round.part;
      round.copy_mine(at);
      mpi::check(mpi::calls().ibcast(at, part, round.root, comm_, &request), "MPI_Ibcast");
    } else {
      round.copy_mine(buffers_->mine.data());
      mpi::check(mpi::calls().iallgather(buffers_->mine.data(), part, buffers_->all.data(), comm_,
                                         &request),
                 "MPI_Iallgather");
    }
  }

  mpi::Handle comm_;
  std::chrono::milliseconds timeout_;
  std::chrono::microseconds spin_;
  std::shared_ptr<std::atomic<bool>> broken_;
  std::shared_ptr<Buffers> buffers_;
  std::vector<Sends> sends_;  // by rank
  Bytes received_;
  std::atomic<uint32_t> aborted_{0};  // 1 + the rank whose end aborted the group
};

}  // namespace

std::unique_ptr<Communicator> mpi::make_communicator(Handle comm,
                                                     const CommunicatorOptions& options,
                                                     std::shared_ptr<std::atomic<bool>> broken) {
  int rank = 0, size = 0;
  check(calls().comm_rank(comm, &rank), "MPI_Comm_rank");
  check(calls().comm_size(comm, &size), "MPI_Comm_size");
  return std::make_unique<MpiCommunicator>(comm, rank, size, options, std::move(broken));
}

}  // namespace tandem
