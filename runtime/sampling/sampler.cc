// Greedy choice and sampling (sampler.h). The greedy path without processors reads the row once and
// copies nothing.
#include "runtime/sampling/sampler.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.h"
#include "kernels/row_draw.h"
#include "kernels/row_math.h"
#include "runtime/sampling/beam_search.h"
#include "runtime/sampling/philox.h"

namespace tandem {

namespace {

void add_entry(proto::TokenLogprobs& out, int32_t id, double logprob, int32_t rank) {
  auto* entry = out.add_top();
  entry->set_token_id(id);
  entry->set_logprob(static_cast<float>(logprob));
  entry->set_rank(rank);
}

proto::TokenLogprobs logprobs_with(std::span<const float> logits, int32_t token, int k,
                                   double normaliser) {
  TANDEM_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
  proto::TokenLogprobs out;
  const float own = logits[static_cast<size_t>(token)];
  add_entry(out, token, own - normaliser, rank_of(logits, own));
  const std::vector<int32_t> top = top_ids(logits, static_cast<size_t>(std::max(k, 0)));
  for (size_t i = 0; i < top.size(); ++i)
    add_entry(out, top[i], logits[static_cast<size_t>(top[i])] - normaliser,
              static_cast<int32_t>(i) + 1);
  return out;
}

struct Chosen {
  int32_t token = 0;
  float logprob = 0;  // among what it was chosen from, at temperature 1; with processed_logprobs
};

// Of logits at a temperature; index: of one of them.
float logprob_at_one(std::span<const float> logits, int32_t index, double temperature) {
  std::vector<float> at_one(logits.begin(), logits.end());
  const float factor = temperature != 0.0 ? static_cast<float>(temperature) : 1.0f;
  for (float& x : at_one) x *= factor;
  return static_cast<float>(at_one[static_cast<size_t>(index)] - log_sum_exp(at_one));
}

// The token, from processed (greedy) or processed and warped (sampling) logits, in place.
Chosen choose(const SamplerSequence& seq, std::span<float> logits) {
  const proto::SamplingParams& params = *seq.params;
  if (needs_processing(seq)) process_logits(seq, logits);
  if (!params.do_sample()) {
    if (!params.processed_logprobs()) return {argmax(logits)};
    const RowSum sum = sum_row(logits);
    const int32_t token = index_of(sum.peak, logits);
    return {token, static_cast<float>(logits[static_cast<size_t>(token)] - sum.log_sum)};
  }
  const double uniform = uniform_draw(params.seed(), seq.seq_index, seq.output_ids.size());
  const auto candidates = warp_candidates(params, logits);
  const std::span<const float> left =
      candidates ? std::span<const float>(candidates->logits) : logits;
  const int32_t drawn = draw_from(left, uniform);
  Chosen out{candidates ? static_cast<int32_t>(candidates->ids[static_cast<size_t>(drawn)])
                        : drawn};
  if (params.processed_logprobs()) out.logprob = logprob_at_one(left, drawn, params.temperature());
  return out;
}

}  // namespace

proto::TokenLogprobs token_logprobs(std::span<const float> logits, int32_t token, int k) {
  return logprobs_with(logits, token, k, log_sum_exp(logits));
}

bool needs_logits(const SamplerSequence& seq) {
  const proto::SamplingParams& params = *seq.params;
  return uses_beams(params) || params.do_sample() || params.has_logprobs() || needs_processing(seq);
}

proto::SequenceOutput sample(const SamplerSequence& seq, std::span<float> logits) {
  TANDEM_CHECK(!logits.empty());
  if (uses_beams(*seq.params)) {
    proto::SequenceOutput out;
    *out.mutable_candidates() = beam_candidates(seq, logits);
    return out;
  }
  const RowSum sum = sum_row(logits);
  const auto normaliser = static_cast<float>(sum.log_sum);  // as a head without logits says it
  static thread_local std::vector<float> copy;
  std::span<const float> raw = logits;
  Chosen chosen;
  const bool changes = seq.params->do_sample() || needs_processing(seq);
  if (changes) {
    copy.assign(logits.begin(), logits.end());
    raw = copy;
    chosen = choose(seq, logits);
  } else {
    chosen.token = index_of(sum.peak, logits);
  }
  const int32_t token = chosen.token;
  proto::SequenceOutput out;
  out.set_token_id(token);
  out.set_logprob(changes && seq.params->processed_logprobs()
                      ? chosen.logprob
                      : raw[static_cast<size_t>(token)] - normaliser);
  // Nothing was left to choose: said by the log-probability, which goes to all ranks.
  if (changes && seq.params->has_constraint() && logits[static_cast<size_t>(token)] == kNothingLeft)
    out.set_logprob(kNothingLeft);
  if (seq.params->has_logprobs())
    *out.mutable_logprobs() = logprobs_with(raw, token, seq.params->logprobs(), normaliser);
  return out;
}

}  // namespace tandem
