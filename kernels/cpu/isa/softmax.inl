// Attention of one head. Scores of a query lie in one row over all its keys, so that nothing
// depends on how keys are cut into pages or queries into chunks: a score is a fixed sum over the
// head dimension, the softmax's sum has 16 lanes by key, and an output element is one chain over
// the keys in order.

// p[j] = exp(p[j] - max), within rounding of max, for n scores; returns the sum, and gives max. p
// is readable and writable up to a multiple of 16, what lies beyond n becomes zero.
inline float softmax_row(float* p, int64_t n, float* top = nullptr) {
  V best[kParts];
  for (int i = 0; i < kParts; ++i) best[i] = set1(-__builtin_inff());
  for (int64_t j = n; j % kLanes16 != 0; ++j) p[j] = -__builtin_inff();
  for (int64_t j = 0; j < n; j += kLanes16)
#pragma GCC unroll 16
    for (int i = 0; i < kParts; ++i) best[i] = max(best[i], load(p + j + i * kLanes));
  const float largest = reduce_max(best);
  if (top != nullptr) *top = largest;
  const V log2e = set1(1.442695041f), shift = zero() - set1(largest) * log2e;
  V sum[kParts];
  for (int i = 0; i < kParts; ++i) sum[i] = zero();
  for (int64_t j = 0; j < n; j += kLanes16)
#pragma GCC unroll 16
    for (int i = 0; i < kParts; ++i) {
      const V e = exp2_flushed(fma(load(p + j + i * kLanes), log2e, shift));
      store(p + j + i * kLanes, e);
      sum[i] = sum[i] + e;
    }
  return reduce_add(sum);
}

// p[j] += values[clamp(j + shift, 0, last)] for n scores.
inline void add_bias(float* p, int64_t n, const float* values, int64_t last, int64_t shift) {
  int64_t j = 0;
  for (; j < n && j + shift < 0; ++j) p[j] += values[0];
  const int64_t end = last - shift + 1 < n ? last - shift + 1 : n;
  for (; j < end; ++j) p[j] += values[j + shift];
  for (; j < n; ++j) p[j] += values[last];
}

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }
