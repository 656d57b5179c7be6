// Filling up, sending and reading rounds (beam_rounds.h).
#include "runtime/execution/device/beam_rounds.h"

#include <algorithm>

#include "base/append_words.h"
#include "base/check.h"
#include "kernels/core/padded_size.h"
#include "models/step/step_tensors.h"
#include "runtime/sampling/beam_search.h"

namespace tandem {

void BeamRounds::add(ops::BeamRound round, const proto::SamplingParams& params,
                     std::span<const ops::BeamPlace> beams) {
  TANDEM_CHECK_EQ(round.num_beams, static_cast<int32_t>(beams.size()));
  const std::vector<int32_t> ends = end_tokens(params);
  round.num_candidates = num_beam_candidates(params);
  round.first_beam = static_cast<int32_t>(beams_.size());
  round.first_end = static_cast<int32_t>(ends_.size());
  round.num_ends = static_cast<int32_t>(ends.size());
  rounds_.push_back(round);
  beams_.insert(beams_.end(), beams.begin(), beams.end());
  ends_.insert(ends_.end(), ends.begin(), ends.end());
  padded_ = static_cast<int32_t>(beams_.size());
  padded_rounds_ = static_cast<int32_t>(rounds_.size());
  padded_ends_ = static_cast<int32_t>(ends_.size());
}

std::vector<int32_t> BeamRounds::pad() {
  if (empty()) return {0, 0, 0};
  padded_ = padded_size(padded_);
  padded_rounds_ = padded_size(padded_rounds_);
  padded_ends_ = doubled_size(std::max(padded_ends_, 1));
  return {padded_, padded_rounds_, padded_ends_};
}

// What fills lists up are rounds without beams, and beams that belong to no round.
std::vector<int32_t> BeamRounds::packed() const {
  std::vector<int32_t> all;
  if (empty()) return all;
  append_words(all, rounds_, static_cast<size_t>(padded_rounds_));
  append_words(all, beams_, static_cast<size_t>(padded_));
  append_words(all, ends_, static_cast<size_t>(std::max(padded_ends_, 1)));
  return all;
}

void BeamRounds::take(const Tensor& there) {
  if (empty()) return;
  const int64_t beams = int64_t{padded_rounds_} * ops::kBeamRoundInts;
  const int64_t ends = beams + int64_t{padded_} * ops::kBeamPlaceInts;
  rounds_there_ = there.rows(0, beams).reshape({padded_rounds_, ops::kBeamRoundInts});
  beams_there_ = there.rows(beams, ends).reshape({padded_, ops::kBeamPlaceInts});
  ends_there_ = there.rows(ends, there.dim(0));
}

void BeamRounds::search(Context& ctx, const Tensor& ids, const Tensor& values,
                        const ops::SequenceMemory& memory, KvCache& cache, const Tensor& answer,
                        const Tensor& best) const {
  const Tensor parents = answer.rows(0, padded_), chosen = answer.rows(padded_, 2 * padded_);
  ops::search_beams(
      ctx, {ids, values, rounds_there_, beams_there_, ends_there_, memory, parents, chosen, best});
  std::vector<Tensor> pools;
  for (const KvPages& pages : cache.layers) {
    pools.push_back(pages.data);
    if (!pages.scales.empty()) pools.push_back(pages.scales);
  }
  ops::move_beam_pages(ctx, {pools, rounds_there_, beams_there_, parents});
}

proto::BeamMoves BeamRounds::read(size_t round, const Tensor& here) const {
  const ops::BeamRound& r = rounds_[round];
  const int32_t* parents = here.data<int32_t>() + r.first_beam;
  const int32_t* chosen = parents + padded_;
  proto::BeamMoves out;
  out.mutable_parents()->Add(parents, parents + r.num_beams);
  out.mutable_token_ids()->Add(chosen, chosen + r.num_beams);
  return out;
}

}  // namespace tandem
