// What the kernels of encoder attention with operands of 16 bits share. They take the keys of a
// head kRagged16Keys at a time, from the first of the sequence on, with the largest score so far.

// A vector's lanes of n elements: at most kLanes, at least 0.
inline int lanes_of(int64_t n) { return n >= kLanes ? kLanes : n < 0 ? 0 : static_cast<int>(n); }

constexpr float kLog2e = 1.442695041f;

// What goes on from block to block of keys.
struct SoftRow {
  float top;  // the largest score so far
  V sum;      // of the exponentials, by lane
};

// What scores are shifted by before they are powers of 2.
inline V shift_of(const SoftRow& row) {
  return set1(row.top == -__builtin_inff() ? 0.0f : -row.top * kLog2e);
}

// The largest of n scores, a multiple of 2 kLanes.
inline float largest_of(const float* p, int64_t n) {
  V best[2] = {load(p), load(p + kLanes)};
  for (int64_t j = 2 * kLanes; j < n; j += 2 * kLanes) {
    best[0] = max(best[0], load(p + j));
    best[1] = max(best[1], load(p + j + kLanes));
  }
  V both[kParts];
  for (V& part : both) part = max(best[0], best[1]);
  return reduce_max(both);
}

// A new largest score: `acc`, the sum of values so far, follows.
[[gnu::noinline]] void raise_top(SoftRow& row, float largest, float* acc, int64_t width) {
  const V factor = exp2_flushed(set1((row.top - largest) * kLog2e));
  row.sum = row.sum * factor;
  for (int64_t d = 0; d < width; d += kLanes) store(acc + d, load(acc + d) * factor);
}

// Cap, bias, and no weight for what fills up the n keys from j on to a multiple of `whole`.
inline void adjust_block_scores(const RaggedHead& h, int64_t query, int64_t j, int64_t n, int whole,
                                float* scores) {
  if (h.soft_cap > 0) soft_cap(h.soft_cap, scores, n);
  if (h.bias.values != nullptr)
    add_bias(scores, n, h.bias.values, h.bias.last, h.bias.zero - (h.position + query) + j);
  for (int64_t i = n; i % whole != 0; ++i) scores[i] = -__builtin_inff();
}
