// What a beam may go on with (sampler.h): processors over log-probabilities, as HuggingFace has it
// with beams, then the best ones. Beam sampling adds Gumbel noise: the best of the perturbed scores
// are a sample without replacement of softmax(scores).
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/check.h"
#include "kernels/row_math.h"
#include "runtime/sampling/beam_search.h"
#include "runtime/sampling/philox.h"
#include "runtime/sampling/sampler.h"

namespace tandem {

namespace {

// The noise is a function of the request's seed, the beam's place, the step and the token.
std::vector<float> perturbed(const SamplerSequence& seq, std::span<const float> row) {
  constexpr float kMasked = -std::numeric_limits<float>::infinity();
  std::vector<float> out(row.begin(), row.end());
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] == kMasked) continue;
    const double uniform = candidate_draw(seq.params->seed(), seq.seq_index, seq.output_ids.size(),
                                          static_cast<uint32_t>(i));
    out[i] += static_cast<float>(-std::log(-std::log(uniform)));
  }
  return out;
}

}  // namespace

proto::BeamCandidates beam_candidates(const SamplerSequence& seq, std::span<float> logits) {
  TANDEM_CHECK(!logits.empty());
  const proto::SamplingParams& params = *seq.params;
  log_softmax(logits, log_sum_exp(logits));
  if (needs_processing(seq)) process_logits(seq, logits);
  if (params.do_sample()) warp_logits(params, logits);
  if (params.renormalize_logits()) log_softmax(logits, log_sum_exp(logits));
  std::vector<float> noisy;
  if (params.do_sample()) noisy = perturbed(seq, logits);
  const auto k = static_cast<size_t>(num_beam_candidates(params));
  proto::BeamCandidates out;
  if (params.processed_logprobs()) out.set_log_sum(static_cast<float>(log_sum_exp(logits)));
  for (const int32_t id : top_ids(params.do_sample() ? noisy : logits, k)) {
    out.add_token_ids(id);
    out.add_logprobs(logits[static_cast<size_t>(id)]);
    if (params.do_sample()) out.add_perturbed(noisy[static_cast<size_t>(id)]);
  }
  return out;
}

}  // namespace tandem
