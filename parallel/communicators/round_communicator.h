// Collectives built on one primitive, the round: every rank gives some bytes and sees everybody's.
// Messages from rank to rank travel in pieces. The transports share chunks, the order of sums and
// error messages.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "base/profile/profile.h"
#include "parallel/communicators/communicator.h"

namespace tandem {

enum class Collective : uint8_t {
  kAllReduce = 1,
  kAllGather,
  kAllToAll,
  kBroadcast,
  kBarrier,
  kSend,
  kReceive
};
const char* name_of(Collective call);
// A power of two. Stages of a pipeline run apart by as many steps
// (runtime/execution/ranks/pipeline.h).
inline constexpr uint32_t kPiecesBetween = 16;
// The span of a rank that waits within a collective for the others' bytes.
inline constexpr SpanKind kWaitForRanks{"wait for ranks", "rank wait"};

class RoundCommunicator : public Communicator {
 public:
  int rank() const final { return rank_; }
  int size() const final { return size_; }
  void all_reduce(const Tensor& x) final;
  void all_gather(const Tensor& x, const Tensor& out) final;
  void all_to_all(const Tensor& x, const Tensor& out) final;
  void broadcast(const Tensor& x, int root) final;
  void barrier() final;
  void send(const Tensor& x, int to) final;
  void receive(const Tensor& x, int from) final;
  CommunicatorStats stats() const final { return stats_; }
  // Longer messages travel in pieces of so many bytes, at least 1 KiB. kPiecesBetween of them lie
  // between a sender and a receiver before the sender waits.
  virtual size_t piece_bytes() const = 0;

 protected:
  // Rank r's bytes begin at data + r * stride. Good until the next round.
  struct Parts {
    const std::byte* data;
    size_t stride;
    const std::byte* operator[](int r) const { return data + static_cast<size_t>(r) * stride; }
  };
  // A rank's part in a round; `part`, `call` and `root` are the same on all ranks.
  struct Round {
    Collective call;
    const void* mine = nullptr;  // this rank's bytes; may be null where bytes is 0
    size_t bytes = 0;            // <= part
    size_t part = 0;             // <= chunk_bytes()
    int root = -1;               // the only rank that gives anything; -1: all do
    int pieces = 1;              // `bytes` lie in so many equal pieces,
    size_t stride = 0;           // the beginnings of which are so many bytes apart

    void copy_mine(std::byte* to) const;
  };

  // chunk_bytes as rounded_chunk() gives it.
  RoundCommunicator(int rank, int size, size_t chunk_bytes);

  // A part of a message to or from `peer`, whose other pieces come before or behind it.
  struct Piece {
    int peer;
    std::byte* data;  // read by send_piece(), written by receive_piece()
    size_t bytes;     // <= piece_bytes()
    size_t message;   // bytes of the whole message; equal on both ranks, or they went astray
  };

  virtual Parts exchange(const Round& round) = 0;
  virtual void send_piece(const Piece& piece) = 0;
  virtual void receive_piece(const Piece& piece) = 0;
  // Throws CommunicatorError if the group was aborted. A call that moves nothing looks, too.
  virtual void check_aborted(Collective call) = 0;

  size_t chunk_bytes() const { return chunk_bytes_; }
  // "all_reduce on rank 1 of 4: " + reason.
  CommunicatorError error(Collective call, const std::string& reason) const;
  // The sender's message is of another length than the receiver's.
  CommunicatorError astray(const Piece& piece, size_t sent) const;

 private:
  class Timer;
  void reduce_chunk(float* x, int64_t count);
  template <class Move>
  void in_pieces(const Tensor& x, int peer, const Move& move);

  int rank_, size_;
  size_t chunk_bytes_;
  CommunicatorStats stats_;
};

// "300 s", "1.5 s".
std::string seconds_text(std::chrono::milliseconds time);
inline constexpr int kMaxRanks = 1024;
// Chunks are whole cache lines, so that no two ranks write to one, with a byte for each rank.
size_t rounded_chunk(size_t bytes);

}  // namespace tandem
