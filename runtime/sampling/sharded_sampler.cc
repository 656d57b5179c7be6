// Two kinds of rows (sharded_sampler.h). Greedy ones without processors: each rank finds the peak
// of its shard and the sum of exponentials under it, and the pieces are combined in rank order.
// Others: each row is sampled by one rank, its owner, to which the others send their parts. One
// all-gather then carries pieces and tokens alike.
#include "runtime/sampling/sharded_sampler.h"

#include <cmath>
#include <limits>
#include <utility>

#include "kernels/row_math.h"
#include "parallel/layers/layers.h"
#include "parallel/shard.h"
#include "runtime/sampling/beam_search.h"
#include "runtime/sampling/sampler.h"

namespace tandem {
namespace {

constexpr int kNoOwner = -1;

// What a rank says of a row: the largest value of its shard (NaN if there is one), its id, and the
// sum of exp(x - value). The owner of a row: its log-probability, the token, nothing.
struct Piece {
  double sum = 0;
  float value = 0;
  int32_t id = -1;  // -1: this rank has nothing to say
};

Piece piece_of(std::span<const float> values, int64_t first_id) {
  if (values.empty()) return {};
  const Peak peak = find_peak(values);
  const int32_t index = index_of(peak, values);
  Piece piece;
  piece.value = values[static_cast<size_t>(index)];
  piece.id = static_cast<int32_t>(first_id) + index;
  if (peak.finite()) piece.sum = sum_exp(values, peak.value);
  return piece;
}

// Pieces in the order of ids: the first NaN wins, else the first of the largest values.
proto::SequenceOutput combine(std::span<const Piece> pieces) {
  Piece best;
  for (const Piece& p : pieces) {
    if (p.id < 0 || (best.id >= 0 && std::isnan(best.value))) continue;
    if (best.id < 0 || std::isnan(p.value) || p.value > best.value) best = p;
  }
  TANDEM_CHECK_GE(best.id, 0);
  double normaliser = std::numeric_limits<double>::quiet_NaN();
  if (std::isfinite(best.value)) {
    double sum = 0;
    for (const Piece& p : pieces)
      if (p.sum > 0) sum += p.sum * std::exp(static_cast<double>(p.value) - best.value);
    normaliser = best.value + std::log(sum);
  } else if (best.value < 0) {
    normaliser = best.value;
  }
  proto::SequenceOutput out;
  out.set_token_id(best.id);
  out.set_logprob(static_cast<float>(best.value - normaliser));
  return out;
}

class ShardedSampler {
 public:
  ShardedSampler(Context& ctx, Communicator& comm, std::span<const SamplerSequence> rows,
                 const Tensor& shard, int64_t vocabulary)
      : ctx_(ctx),
        comm_(comm),
        rows_(rows),
        shard_(shard),
        vocabulary_(vocabulary),
        ids_(shard_range(vocabulary, comm.rank(), comm.size())),
        owners_(rows.size(), kNoOwner),
        mine_(rows.size()),
        out_(rows.size()) {
    // Lists of log-probabilities and beams are for rank 0; the rest is dealt out.
    int next = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!needs_logits(rows[i])) continue;
      whole_.push_back(static_cast<int64_t>(i));
      const bool lists = rows[i].params->has_logprobs() || uses_beams(*rows[i].params);
      owners_[i] = lists ? 0 : next++ % comm.size();
    }
  }

  std::vector<proto::SequenceOutput> run() {
    find_pieces();
    if (!whole_.empty()) sample_own_rows();
    const std::vector<Piece> all = exchange();
    const size_t ranks = static_cast<size_t>(comm_.size()), n = rows_.size();
    std::vector<Piece> of_row(ranks);
    for (size_t i = 0; i < n; ++i) {
      if (owners_[i] == comm_.rank()) continue;
      if (owners_[i] != kNoOwner) {
        const Piece& token = all[static_cast<size_t>(owners_[i]) * n + i];
        out_[i].set_token_id(token.id);
        out_[i].set_logprob(token.value);
        continue;
      }
      for (size_t r = 0; r < ranks; ++r) of_row[r] = all[r * n + i];
      out_[i] = combine(of_row);
    }
    return std::move(out_);
  }

 private:
  void find_pieces() {
    ctx_.pool().run(static_cast<int64_t>(rows_.size()), [&](int64_t i, int) {
      const auto k = static_cast<size_t>(i);
      if (owners_[k] == kNoOwner)
        mine_[k] = piece_of({shard_.row<float>(i), static_cast<size_t>(ids_.size())}, ids_.begin);
    });
  }

  void sample_own_rows() {
    std::vector<int> owners;
    std::vector<size_t> own;
    for (const int64_t row : whole_) {
      const auto i = static_cast<size_t>(row);
      owners.push_back(owners_[i]);
      if (owners_[i] == comm_.rank()) own.push_back(i);
    }
    const Tensor logits = gather_vocabulary_of_rows(comm_, shard_, vocabulary_, whole_, owners);
    ctx_.pool().run(static_cast<int64_t>(own.size()), [&](int64_t k, int) {
      const size_t i = own[static_cast<size_t>(k)];
      out_[i] = sample(rows_[i], {logits.row<float>(k), static_cast<size_t>(vocabulary_)});
      mine_[i].id = out_[i].token_id();
      mine_[i].value = out_[i].logprob();
    });
  }

  // Everybody's pieces: [ranks, rows].
  std::vector<Piece> exchange() {
    std::vector<Piece> all(mine_.size() * static_cast<size_t>(comm_.size()));
    const auto bytes_of = [](std::vector<Piece>& pieces) {
      return Tensor::borrow(pieces.data(), {static_cast<int64_t>(pieces.size() * sizeof(Piece))},
                            DType::kU8);
    };
    comm_.all_gather(bytes_of(mine_), bytes_of(all));
    return all;
  }

  Context& ctx_;
  Communicator& comm_;
  std::span<const SamplerSequence> rows_;
  const Tensor& shard_;
  int64_t vocabulary_;
  Range ids_;
  std::vector<int64_t> whole_;  // rows that are gathered
  std::vector<int> owners_;     // by row: who samples it
  std::vector<Piece> mine_;
  std::vector<proto::SequenceOutput> out_;
};

}  // namespace

std::vector<proto::SequenceOutput> sample_sharded(Context& ctx, Communicator& comm,
                                                  std::span<const SamplerSequence> rows,
                                                  const Tensor& shard, int64_t vocabulary) {
  TANDEM_CHECK_EQ(shard.dim(0), static_cast<int64_t>(rows.size()));
  return ShardedSampler(ctx, comm, rows, shard, vocabulary).run();
}

}  // namespace tandem
