// Greedy choice and sampling (sampler.h). The greedy path without processors reads the row twice (max,
// sum of exponentials) and copies nothing.
#include "runtime/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/core/check.h"
#include "runtime/fast_math.h"
#include "runtime/philox.h"

namespace tandem {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr size_t kLanes = 16;    // independent chains, so that the compiler vectorises
constexpr size_t kBlock = 256;   // values summed in float before the sum goes on in double

struct Peak {
  float value = -kInfinity;  // largest value that is not NaN
  size_t block = 0;          // start of the block of its first occurrence
  bool has_nan = false;
};

Peak find_peak(std::span<const float> values) {
  Peak peak;
  size_t i = 0;
  for (; i + kBlock <= values.size(); i += kBlock) {
    std::array<float, kLanes> top;
    std::array<int32_t, kLanes> nan{};
    top.fill(-kInfinity);
    for (size_t j = 0; j < kBlock; j += kLanes)
      for (size_t l = 0; l < kLanes; ++l) {
        const float x = values[i + j + l];
        top[l] = x > top[l] ? x : top[l];
        nan[l] |= x != x ? 1 : 0;
      }
    float best = -kInfinity;
    for (size_t l = 0; l < kLanes; ++l) {
      best = std::max(best, top[l]);
      peak.has_nan |= nan[l] != 0;
    }
    if (best > peak.value) {
      peak.value = best;
      peak.block = i;
    }
  }
  for (const size_t tail = i; i < values.size(); ++i) {
    peak.has_nan |= std::isnan(values[i]);
    if (values[i] > peak.value) {
      peak.value = values[i];
      peak.block = tail;
    }
  }
  return peak;
}

// Sum of exp(value - top), top the largest value.
double sum_exp(std::span<const float> values, float top) {
  double sum = 0;
  size_t i = 0;
  for (; i + kBlock <= values.size(); i += kBlock) {
    std::array<float, kLanes> part{};
    for (size_t j = 0; j < kBlock; j += kLanes)
      for (size_t l = 0; l < kLanes; ++l) part[l] += exp_nonpositive(values[i + j + l] - top);
    for (const float p : part) sum += p;
  }
  for (; i < values.size(); ++i) sum += exp_nonpositive(values[i] - top);
  return sum;
}

int32_t index_of(const Peak& peak, std::span<const float> values) {
  const auto found = peak.has_nan ? std::find_if(values.begin(), values.end(), [](float x) { return std::isnan(x); })
                                  : std::find(values.begin() + static_cast<long>(peak.block), values.end(), peak.value);
  return found == values.end() ? 0 : static_cast<int32_t>(found - values.begin());
}

double log_sum_exp(std::span<const float> values, const Peak& peak) {
  if (peak.has_nan || peak.value == kInfinity) return std::numeric_limits<double>::quiet_NaN();
  if (peak.value == -kInfinity) return -kInfinity;
  return peak.value + std::log(sum_exp(values, peak.value));
}

// Inverse of the cumulative distribution, in the order of the ids. Falls back to the argmax where there
// is no distribution (NaN, +inf, nothing left).
int32_t draw(std::span<const float> logits, double uniform) {
  const Peak peak = find_peak(logits);
  if (peak.has_nan || std::isinf(peak.value)) return index_of(peak, logits);
  static thread_local std::vector<float> weights;
  weights.resize(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) weights[i] = exp_nonpositive(logits[i] - peak.value);
  double total = 0;
  for (const float w : weights) total += w;
  const double target = uniform * total;
  double sum = 0;
  size_t last = 0;  // the last id with any weight: rounding cannot lead past it
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0.0f) continue;
    sum += weights[i];
    last = i;
    if (sum > target) break;
  }
  return static_cast<int32_t>(last);
}

// Orders floats as integers; NaN is the largest, -0 equals 0.
int32_t order_key(float x) {
  if (std::isnan(x)) return std::numeric_limits<int32_t>::max();
  const auto bits = std::bit_cast<int32_t>(x + 0.0f);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}

// Ids of the k largest, largest first; of equals the lower id first.
std::vector<int32_t> top_ids(std::span<const float> logits, size_t k) {
  struct Entry {
    int32_t key, id;
  };
  const auto before = [](const Entry& a, const Entry& b) {
    return a.key != b.key ? a.key > b.key : a.id < b.id;
  };
  k = std::min(k, logits.size());
  std::vector<Entry> heap;  // its front is the least of the best so far
  for (size_t i = 0; i < logits.size() && k > 0; ++i) {
    const Entry entry{order_key(logits[i]), static_cast<int32_t>(i)};
    if (heap.size() == k) {
      if (!before(entry, heap.front())) continue;
      std::pop_heap(heap.begin(), heap.end(), before);
      heap.pop_back();
    }
    heap.push_back(entry);
    std::push_heap(heap.begin(), heap.end(), before);
  }
  std::sort_heap(heap.begin(), heap.end(), before);
  std::vector<int32_t> ids;
  for (const Entry& entry : heap) ids.push_back(entry.id);
  return ids;
}

void add_entry(proto::TokenLogprobs& out, int32_t id, double logprob, int32_t rank) {
  auto* entry = out.add_top();
  entry->set_token_id(id);
  entry->set_logprob(static_cast<float>(logprob));
  entry->set_rank(rank);
}

proto::TokenLogprobs logprobs_with(std::span<const float> logits, int32_t token, int k, double normaliser) {
  TANDEM_CHECK(token >= 0 && static_cast<size_t>(token) < logits.size());
  proto::TokenLogprobs out;
  const float own = logits[static_cast<size_t>(token)];
  int32_t rank = 1;
  for (const float x : logits) rank += x > own ? 1 : 0;
  add_entry(out, token, own - normaliser, rank);
  const std::vector<int32_t> top = top_ids(logits, static_cast<size_t>(std::max(k, 0)));
  for (size_t i = 0; i < top.size(); ++i)
    add_entry(out, top[i], logits[static_cast<size_t>(top[i])] - normaliser, static_cast<int32_t>(i) + 1);
  return out;
}

// The token, from processed (greedy) or processed and warped (sampling) logits, in place.
int32_t choose(const SamplerSequence& seq, std::span<float> logits) {
  if (needs_processing(seq)) process_logits(seq, logits);
  if (!seq.params->do_sample()) return argmax(logits);
  warp_logits(*seq.params, logits);
  return draw(logits, uniform_draw(seq.params->seed(), seq.seq_index, seq.output_ids.size()));
}

}  // namespace

int32_t argmax(std::span<const float> values) { return index_of(find_peak(values), values); }

double log_sum_exp(std::span<const float> values) { return log_sum_exp(values, find_peak(values)); }

proto::TokenLogprobs token_logprobs(std::span<const float> logits, int32_t token, int k) {
  return logprobs_with(logits, token, k, log_sum_exp(logits));
}

proto::SequenceOutput sample(const SamplerSequence& seq, std::span<float> logits) {
  TANDEM_CHECK(!logits.empty());
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
