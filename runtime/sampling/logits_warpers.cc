// The warpers of transformers' logits_process.py, for sampling. All work on the candidates that are
// left, so that what follows top-k is cheap. Those that devices know too are in kernels/row_draw.h.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <span>
#include <vector>

#include "kernels/row_draw.h"
#include "kernels/row_math.h"
#include "runtime/sampling/logits_processors.h"

namespace tandem {

namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// HuggingFace's min_tokens_to_keep: beams need continuations besides all the end tokens.
size_t least_kept(const proto::SamplingParams& p) {
  return p.num_beams() > 1 ? static_cast<size_t>(std::max(p.eos_token_id_size(), 1)) + 1 : 1;
}

// The logit from which candidates stay whatever a filter says: that of the `least` best ones.
float always_kept(const Candidates& c, size_t least) {
  if (least <= 1) return kKeepsNone;
  return kth_largest(c.logits, std::min(least, c.size()));
}

std::vector<float> log_softmax(const Candidates& c) {
  const float top = max_logit(c);
  const auto log_sum = static_cast<float>(std::log(sum_exp(c.logits, top)));
  std::vector<float> out(c.size());
  for (size_t i = 0; i < c.size(); ++i) out[i] = (c.logits[i] - top) - log_sum;
  return out;
}

float entropy(const std::vector<float>& log_p) {
  double sum = 0;
  for (const float l : log_p) sum -= static_cast<double>(l * std::exp(l));
  return static_cast<float>(sum);
}

void top_h(Candidates& c, double fraction) {
  constexpr size_t kConsidered = 100;
  std::vector<uint32_t> order(c.size());
  std::iota(order.begin(), order.end(), 0u);
  const size_t considered = std::min(c.size(), kConsidered);
  std::partial_sort(order.begin(), order.begin() + static_cast<long>(considered), order.end(),
                    [&](uint32_t a, uint32_t b) {
                      return c.logits[a] != c.logits[b] ? c.logits[a] > c.logits[b] : a < b;
                    });
  Candidates best;
  for (size_t i = 0; i < considered; ++i) best.logits.push_back(c.logits[order[i]]);
  best.ids.resize(considered);
  const std::vector<float> log_p = log_softmax(best);
  const float most = entropy(log_p) * static_cast<float>(fraction);
  std::vector<bool> kept(c.size(), false);
  double sum = 0;
  for (size_t i = 0; i < considered; ++i) {
    const float p = std::exp(log_p[i]);
    sum -= static_cast<double>(p * std::log(p));
    if (!(static_cast<float>(sum) <= most) && i > 0) break;
    kept[order[i]] = true;
  }
  c.filter([&](size_t i) { return kept[i]; });
}

void typical(Candidates& c, double mass, size_t least) {
  const std::vector<float> log_p = log_softmax(c);
  const float expected = entropy(log_p);
  std::vector<float> distance(c.size());
  for (size_t i = 0; i < c.size(); ++i) distance[i] = std::fabs(-log_p[i] - expected);
  std::vector<uint32_t> order(c.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return distance[a] < distance[b]; });
  const std::vector<float> p = softmax(c);
  double sum = 0;
  size_t last = 0;
  for (; last < order.size(); ++last) {
    sum += p[order[last]];
    if (!(static_cast<float>(sum) < static_cast<float>(mass))) break;
  }
  last = std::max(last, least - 1);
  if (last >= order.size()) return;
  const float farthest = distance[order[last]];
  c.filter([&](size_t i) { return distance[i] <= farthest; });
}

// Removes what is less likely than `threshold`, but never the most likely ones.
void cut_below(Candidates& c, float threshold, size_t least) {
  const std::vector<float> p = softmax(c);
  const float kept = least > 1 ? always_kept(c, least) : max_logit(c);
  c.filter([&](size_t i) { return p[i] >= threshold || c.logits[i] >= kept; });
}

void eta_cutoff(Candidates& c, double epsilon, size_t least) {
  const auto e = static_cast<float>(epsilon);
  cut_below(c, std::min(e, std::sqrt(e) * std::exp(-entropy(log_softmax(c)))), least);
}

}  // namespace

std::optional<Candidates> warp_candidates(const proto::SamplingParams& p, std::span<float> logits) {
  if (p.temperature() != 0.0 && p.temperature() != 1.0) {
    const auto temperature = static_cast<float>(p.temperature());
    for (float& logit : logits) logit /= temperature;
  }
  const bool by_typicality = p.typical_p() > 0 && p.typical_p() < 1.0;
  const bool filters = p.top_h() > 0 || p.top_k() > 0 || p.top_p() < 1.0 || p.min_p() > 0 ||
                       by_typicality || p.epsilon_cutoff() > 0 || p.eta_cutoff() > 0;
  if (!filters || !find_peak(logits).finite()) return std::nullopt;
  const size_t least = least_kept(p);
  const auto k = p.top_k() > 0 ? std::max(static_cast<size_t>(p.top_k()), least) : size_t{0};
  const bool by_threshold = k > 0 && k < logits.size() && !(p.top_h() > 0);
  Candidates c = candidates_of(logits, by_threshold ? k : 0);
  if (p.top_h() > 0) top_h(c, p.top_h());
  if (k > 0) keep_top_k(c, k);
  if (p.top_p() < 1.0) drop_tail(c, static_cast<float>(1.0 - p.top_p()), always_kept(c, least));
  if (p.min_p() > 0) keep_min_p(c, static_cast<float>(p.min_p()), always_kept(c, least));
  if (by_typicality) typical(c, p.typical_p(), least);
  if (p.epsilon_cutoff() > 0) cut_below(c, static_cast<float>(p.epsilon_cutoff()), least);
  if (p.eta_cutoff() > 0) eta_cutoff(c, p.eta_cutoff(), least);
  return c;
}

void warp_logits(const proto::SamplingParams& p, std::span<float> logits) {
  const auto c = warp_candidates(p, logits);
  if (!c) return;
  std::fill(logits.begin(), logits.end(), kNever);
  for (size_t i = 0; i < c->size(); ++i) logits[static_cast<size_t>(c->ids[i])] = c->logits[i];
}

}  // namespace tandem
