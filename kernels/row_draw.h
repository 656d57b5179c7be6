// Drawing a token from a row of logits, shared by the CPU's ops (kernels/sampling_ops.h) and the
// host's sampler (runtime/sampling): the warpers of transformers' logits_process.py that both
// support, and the draw. Probabilities are float32. Cumulative sums are kept in double and rounded
// to float32, as torch.cumsum does on a CPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace tandem {

// The remaining entries of a row, in the order of ids.
struct Candidates {
  std::vector<float> logits;
  std::vector<int32_t> ids;

  size_t size() const { return logits.size(); }
  // Keeps candidate i where keep(i).
  void filter(const auto& keep) {
    size_t kept = 0;
    for (size_t i = 0; i < size(); ++i) {
      logits[kept] = logits[i];
      ids[kept] = ids[i];
      kept += keep(i) ? 1 : 0;
    }
    logits.resize(kept);
    ids.resize(kept);
  }
};

// The k-th largest value, 0 < k <= values.size(); no NaN among them.
float kth_largest(std::span<const float> values, size_t k);

// All but -inf. `most` > 0: only the largest so many and their equals. No NaN or +inf among them.
Candidates candidates_of(std::span<const float> logits, size_t most);

float max_logit(const Candidates& c);
std::vector<float> softmax(const Candidates& c);

// Candidates whose logits are at least `kept` stay whatever a filter says.
inline constexpr float kKeepsNone = std::numeric_limits<float>::infinity();
void keep_top_k(Candidates& c, size_t k);
// top-p with tail = 1 - p. From the least likely up (of equals the lower id first), drops
// candidates while their cumulative probability is at most `tail`. The most likely one stays.
void drop_tail(Candidates& c, float tail, float kept = kKeepsNone);
// Keeps candidates at least `fraction` times as likely as the most likely one.
void keep_min_p(Candidates& c, float fraction, float kept = kKeepsNone);

// Inverse of the cumulative distribution, in the order of the row. `uniform`: in [0, 1). The argmax
// if there is no distribution (NaN, +inf, nothing left).
int32_t draw_from(std::span<const float> logits, double uniform);

}  // namespace tandem
