// The rounds of beam search in a step on a device: what ops::search_beams needs of each, and its
// answer. What they decide is runtime/sampling/beam_search.h's, which the scheduler runs over the
// same candidates.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/sampling_ops.h"
#include "models/model.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

class BeamRounds {
 public:
  // first_row, num_beams, rows, length and full_pages of `round` are the caller's; the rest is
  // ours.
  void add(ops::BeamRound round, const proto::SamplingParams& params,
           std::span<const ops::BeamPlace> beams);

  bool empty() const { return rounds_.empty(); }
  size_t size() const { return rounds_.size(); }
  // Of the outputs: the first one of a round's beams.
  int32_t first_beam(size_t round) const { return rounds_[round].first_beam; }
  int32_t padded() const { return padded_; }  // beams, filled up

  // Fills it up to a shape that comes again, and says which.
  std::vector<int32_t> pad();
  // What the device reads of it (nothing without rounds), and where that lies there.
  std::vector<int32_t> packed() const;
  void take(const Tensor& there);
  // Once the step is on its way: what was uploaded is gone with it.
  void forget_uploads() { rounds_there_ = beams_there_ = ends_there_ = Tensor(); }

  int64_t answer_size() const { return 2 * int64_t{padded_}; }
  // Rows of `ids` and `values` are select()'s. answer: [answer_size()] i32; best: [padded()].
  void search(Context& ctx, const Tensor& ids, const Tensor& values,
              const ops::SequenceMemory& memory, KvCache& cache, const Tensor& answer,
              const Tensor& best) const;
  // From an answer that is on the host.
  proto::BeamMoves read(size_t round, const Tensor& here) const;

 private:
  std::vector<ops::BeamRound> rounds_;
  std::vector<ops::BeamPlace> beams_;
  std::vector<int32_t> ends_;
  int32_t padded_ = 0, padded_rounds_ = 0, padded_ends_ = 0;
  Tensor rounds_there_, beams_there_, ends_there_;
};

}  // namespace tandem
