// Greedy choice and sampling (sampler.h). The greedy path without processors reads the row twice
// (max, sum of exponentials) and copies nothing.
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

// The token, from processed (greedy) or processed and warped (sampling) logits, in place.
int32_t choose(const SamplerSequence& seq, std::span<float> logits) {
  if (needs_processing(seq)) process_logits(seq, logits);
  if (!seq.params->do_sample()) return argmax(logits);
  const double uniform = uniform_draw(seq.params->seed(), seq.seq_index, seq.output_ids.size());
  const auto candidates = warp_candidates(*seq.params, logits);
  if (!candidates) return draw_from(logits, uniform);
  return candidates->ids[static_cast<size_t>(draw_from(candidates->logits, uniform))];
}

}  // namespace

proto::TokenLogprobs token_logprobs(std::span<const float> logits, int32_t token, int k) {
  return logprobs_with(logits, token, k, log_sum_exp(logits));
}

proto::SequenceOutput sample(const SamplerSequence& seq, std::span<float> logits) {
  TANDEM_CHECK(!logits.empty());
  if (uses_beams(*seq.params)) {
    proto::SequenceOutput out;
    *out.mutable_candidates() = beam_candidates(seq, logits);
    return out;
  }
  const Peak peak = find_peak(logits);
  const double normaliser = log_sum_exp(logits, peak);
  static thread_local std::vector<float> copy;
  std::span<const float> raw = logits;
  int32_t token = 0;
  if (seq.params->do_sample() || needs_processing(seq)) {
    copy.assign(logits.begin(), logits.end());
    raw = copy;
    token = choose(seq, logits);
  } else {
    token = index_of(peak, logits);
  }
  proto::SequenceOutput out;
  out.set_token_id(token);
  out.set_logprob(static_cast<float>(raw[static_cast<size_t>(token)] - normaliser));
  if (seq.params->has_logprobs())
    *out.mutable_logprobs() = logprobs_with(raw, token, seq.params->logprobs(), normaliser);
  return out;
}

}  // namespace tandem
