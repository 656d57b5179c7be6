// Chunking, and the sums in rank order (round_communicator.h).
#include "parallel/communicators/round_communicator.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "parallel/shard.h"

namespace tandem {
namespace {

constexpr size_t kLine = 64;
constexpr int64_t kLineFloats = kLine / sizeof(float);
constexpr int64_t kSumBlock = 2048;  // floats that stay in the first cache while parts are added
// From here on each rank sums its part only and a second round carries the results: less to read
// than a second wait costs. With two ranks nothing is saved.
constexpr int64_t kSharedSumFloats = 8192;

// out[i] = parts[0][i] + parts[1][i] + ..., added from left to right.
template <class Parts>
void sum_in_order(const Parts& parts, int ranks, int64_t begin, int64_t end, float* out) {
  const auto at = [&](int r, int64_t i) { return reinterpret_cast<const float*>(parts[r]) + i; };
  for (int64_t i = begin; i < end; i += kSumBlock) {
    const int64_t n = std::min(kSumBlock, end - i);
    float* const to = out + i;
    std::memcpy(to, at(0, i), static_cast<size_t>(n) * sizeof(float));
    for (int r = 1; r < ranks; ++r) {
      const float* const from = at(r, i);
      for (int64_t k = 0; k < n; ++k) to[k] += from[k];
    }
  }
}

// (Constants, because spans keep their names.)
const SpanKind& span_of(Collective call) {
  static constexpr SpanKind kReduce{"all_reduce", "collective", {"bytes"}};
  static constexpr SpanKind kGather{"all_gather", "collective", {"bytes"}};
  static constexpr SpanKind kExchange{"all_to_all", "collective", {"bytes"}};
  static constexpr SpanKind kBroadcast{"broadcast", "collective", {"bytes"}};
  static constexpr SpanKind kBarrier{"barrier", "collective"};
  static constexpr SpanKind kSend{"send", "collective", {"bytes"}};
  static constexpr SpanKind kReceive{"receive", "collective", {"bytes"}};
  switch (call) {
    case Collective::kAllReduce: return kReduce;
    case Collective::kAllGather: return kGather;
    case Collective::kAllToAll: return kExchange;
    case Collective::kBroadcast: return kBroadcast;
    case Collective::kSend: return kSend;
    case Collective::kReceive: return kReceive;
    case Collective::kBarrier: break;
  }
  return kBarrier;
}

// Rank r's part of a shared sum: equal numbers of whole cache lines, the last ones cut short.
Range part_of(int64_t count, int rank, int64_t share) {
  return {std::min(count, rank * share), std::min(count, (rank + 1) * share)};
}

}  // namespace

const char* name_of(Collective call) {
  switch (call) {
    case Collective::kAllReduce: return "all_reduce";
    case Collective::kAllGather: return "all_gather";
    case Collective::kAllToAll: return "all_to_all";
    case Collective::kBroadcast: return "broadcast";
    case Collective::kBarrier: return "barrier";
    case Collective::kSend: return "send";
    case Collective::kReceive: return "receive";
  }
  return "an unknown call";
}

std::string seconds_text(std::chrono::milliseconds time) {
  std::ostringstream out;
  out << std::chrono::duration<double>(time).count() << " s";
  return out.str();
}

size_t rounded_chunk(size_t bytes) {
  TANDEM_CHECK_LT(bytes, size_t{1} << 30);
  return std::max(size_t{kMaxRanks}, (bytes + kLine - 1) / kLine * kLine);
}

// One collective's share of the statistics, and its span.
class RoundCommunicator::Timer {
 public:
  Timer(CommunicatorStats& stats, Collective call, const Tensor& x)
      : stats_(stats), span_(span_of(call)) {
    ++stats.calls;
    stats.bytes += static_cast<int64_t>(x.bytes());
    span_.say({static_cast<int64_t>(x.bytes())});
  }
  ~Timer() { stats_.time += std::chrono::steady_clock::now() - start_; }

 private:
  CommunicatorStats& stats_;
  ProfileSpan span_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

RoundCommunicator::RoundCommunicator(int rank, int size, size_t chunk_bytes)
    : rank_(rank), size_(size), chunk_bytes_(chunk_bytes) {
  TANDEM_CHECK(size >= 1 && size <= kMaxRanks);
  TANDEM_CHECK_GE(chunk_bytes, size_t{kMaxRanks});
}

void RoundCommunicator::Round::copy_mine(std::byte* to) const {
  if (bytes == 0) return;
  const size_t piece = bytes / static_cast<size_t>(pieces);
  for (size_t i = 0; i < static_cast<size_t>(pieces); ++i)
    std::memcpy(to + i * piece, static_cast<const std::byte*>(mine) + i * stride, piece);
}

CommunicatorError RoundCommunicator::error(Collective call, const std::string& reason) const {
  return CommunicatorError(std::string(name_of(call)) + " on rank " + std::to_string(rank_) +
                           " of " + std::to_string(size_) + ": " + reason);
}

CommunicatorError RoundCommunicator::astray(const Piece& piece, size_t sent) const {
  return error(Collective::kReceive, "rank " + std::to_string(piece.peer) + " sends " +
                                         std::to_string(sent) + " bytes, this rank expects " +
                                         std::to_string(piece.message));
}

template <class Move>
void RoundCommunicator::in_pieces(const Tensor& x, int peer, const Move& move) {
  const size_t bytes = x.bytes(), most = piece_bytes();
  TANDEM_CHECK(peer >= 0 && peer < size_ && peer != rank_);
  TANDEM_CHECK(bytes == 0 || x.contiguous());
  auto* const data = static_cast<std::byte*>(x.raw());
  size_t at = 0;
  do {  // a message without a byte has one piece
    const size_t n = std::min(most, bytes - at);
    move(Piece{peer, bytes > 0 ? data + at : nullptr, n, bytes});
    at += n;
  } while (at < bytes);
}

void RoundCommunicator::send(const Tensor& x, int to) {
  const Timer timer(stats_, Collective::kSend, x);
  check_aborted(Collective::kSend);
  in_pieces(x, to, [&](const Piece& piece) { send_piece(piece); });
}

void RoundCommunicator::receive(const Tensor& x, int from) {
  const Timer timer(stats_, Collective::kReceive, x);
  check_aborted(Collective::kReceive);
  in_pieces(x, from, [&](const Piece& piece) { receive_piece(piece); });
}

void RoundCommunicator::all_reduce(const Tensor& x) {
  const Timer timer(stats_, Collective::kAllReduce, x);
  TANDEM_CHECK(x.dtype() == DType::kF32);
  TANDEM_CHECK(x.size() == 0 || x.contiguous());
  check_aborted(Collective::kAllReduce);
  const auto chunk = static_cast<int64_t>(chunk_bytes_ / sizeof(float));
  float* const data = static_cast<float*>(x.raw());
  const int64_t count = x.size();
  for (int64_t i = 0; i < count; i += chunk) reduce_chunk(data + i, std::min(chunk, count - i));
}

void RoundCommunicator::reduce_chunk(float* x, int64_t count) {
  const auto bytes_of = [](int64_t n) { return static_cast<size_t>(n) * sizeof(float); };
  const Parts all = exchange({Collective::kAllReduce, x, bytes_of(count), bytes_of(count)});
  if (size_ < 3 || count < kSharedSumFloats) {
    sum_in_order(all, size_, 0, count, x);
    return;
  }
  const int64_t lines = (count + kLineFloats - 1) / kLineFloats;
  const int64_t share = (lines + size_ - 1) / size_ * kLineFloats;
  const Range mine = part_of(count, rank_, share);
  sum_in_order(all, size_, mine.begin, mine.end, x);
  const Parts sums =
      exchange({Collective::kAllReduce, x + mine.begin, bytes_of(mine.size()), bytes_of(share)});
  for (int r = 0; r < size_; ++r) {
    const Range part = part_of(count, r, share);
    if (r != rank_ && part.size() > 0) std::memcpy(x + part.begin, sums[r], bytes_of(part.size()));
  }
}

void RoundCommunicator::all_gather(const Tensor& x, const Tensor& out) {
  const Timer timer(stats_, Collective::kAllGather, x);
  const size_t part = x.bytes();
  TANDEM_CHECK(part == 0 || (x.contiguous() && out.contiguous()));
  TANDEM_CHECK_EQ(out.bytes(), part * static_cast<size_t>(size_));
  check_aborted(Collective::kAllGather);
  const auto* from = static_cast<const std::byte*>(x.raw());
  auto* to = static_cast<std::byte*>(out.raw());
  for (size_t i = 0; i < part; i += chunk_bytes_) {
    const size_t n = std::min(chunk_bytes_, part - i);
    const Parts all = exchange({Collective::kAllGather, from + i, n, n});
    for (int r = 0; r < size_; ++r) std::memcpy(to + static_cast<size_t>(r) * part + i, all[r], n);
  }
}

void RoundCommunicator::all_to_all(const Tensor& x, const Tensor& out) {
  const Timer timer(stats_, Collective::kAllToAll, x);
  const auto ranks = static_cast<size_t>(size_);
  const size_t part = x.bytes() / ranks;
  TANDEM_CHECK_EQ(part * ranks, x.bytes());
  TANDEM_CHECK_EQ(out.bytes(), x.bytes());
  TANDEM_CHECK(part == 0 || (x.contiguous() && out.contiguous() && x.raw() != out.raw()));
  check_aborted(Collective::kAllToAll);
  const auto* from = static_cast<const std::byte*>(x.raw());
  auto* to = static_cast<std::byte*>(out.raw());
  const size_t piece = chunk_bytes_ / ranks;
  for (size_t i = 0; i < part; i += piece) {
    const size_t n = std::min(piece, part - i);
    const Parts all =
        exchange({Collective::kAllToAll, from + i, n * ranks, n * ranks, -1, size_, part});
    for (size_t r = 0; r < ranks; ++r)
      std::memcpy(to + r * part + i, all[static_cast<int>(r)] + static_cast<size_t>(rank_) * n, n);
  }
}

void RoundCommunicator::broadcast(const Tensor& x, int root) {
  const Timer timer(stats_, Collective::kBroadcast, x);
  TANDEM_CHECK(root >= 0 && root < size_);
  const size_t bytes = x.bytes();
  TANDEM_CHECK(bytes == 0 || x.contiguous());
  check_aborted(Collective::kBroadcast);
  auto* data = static_cast<std::byte*>(x.raw());
  const bool gives = rank_ == root;
  for (size_t i = 0; i < bytes; i += chunk_bytes_) {
    const size_t n = std::min(chunk_bytes_, bytes - i);
    const Parts all =
        exchange({Collective::kBroadcast, gives ? data + i : nullptr, gives ? n : 0, n, root});
    if (!gives) std::memcpy(data + i, all[root], n);
  }
}

void RoundCommunicator::barrier() {
  const Timer timer(stats_, Collective::kBarrier, {});
  check_aborted(Collective::kBarrier);
  exchange({Collective::kBarrier});
}

}  // namespace tandem
