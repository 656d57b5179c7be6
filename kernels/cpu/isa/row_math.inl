// Rows of logits: what kernels/row_math.h takes from the levels. Every level has the same bits, and
// those of the plain loops over exp_nonpositive() there.

constexpr int64_t kRowPart = 256;  // kRowBlock

// The largest of n values that is not NaN, a multiple of 16; nan: whether one is.
[[gnu::always_inline]] inline float largest_value(const float* x, int64_t n, bool& nan) {
  V top[kParts];
  nan = false;
  for (int p = 0; p < kParts; ++p) top[p] = set1(-__builtin_inff());
  for (int64_t j = 0; j < n; j += kLanes16)
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) {
      const V v = load(x + j + p * kLanes);
      top[p] = max(v, top[p]);  // the second, where v is a NaN
      nan |= any_nan(v);
    }
  return reduce_max(top);
}

void find_peak(const float* x, int64_t n, RowPeak& peak) {
  int64_t i = 0;
  for (; i + kRowPart <= n; i += kRowPart) {
    bool nan;
    const float best = largest_value(x + i, kRowPart, nan);
    peak.has_nan |= nan;
    if (best > peak.value) {
      peak.value = best;
      peak.block = i;
    }
  }
  for (const int64_t tail = i; i < n; ++i) {
    peak.has_nan |= x[i] != x[i];
    if (x[i] > peak.value) {
      peak.value = x[i];
      peak.block = tail;
    }
  }
}

// exp_nonpositive(), for loops that the compiler vectorises.
inline float exp_plain(float x) {
  const float shifted = x * 1.44269504088896341f + 12582912.0f;
  const float n = shifted - 12582912.0f;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const uint32_t scale = (__builtin_bit_cast(uint32_t, shifted) + 127u) << 23;
  const uint32_t keep = 0u - static_cast<uint32_t>(!(x < -87.0f));
  return __builtin_bit_cast(
      float, __builtin_bit_cast(uint32_t, p * __builtin_bit_cast(float, scale)) & keep);
}

void exp_all(const float* x, int64_t n, float top, float* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = exp_plain(x[i] - top);
}

// Blocks are summed in float by 16 lanes, in double across blocks.
double sum_exp(const float* x, int64_t n, float top) {
  double sum = 0;
  for (int64_t i = 0; i < n; i += kRowPart) {
    const int64_t count = n - i < kRowPart ? n - i : kRowPart;
    alignas(64) float block[kRowPart];
    if (count == kRowPart)
      exp_all(x + i, kRowPart, top, block);
    else
      exp_all(x + i, count, top, block);
    float part[kLanes16] = {};
    int64_t j = 0;
    for (; j + kLanes16 <= count; j += kLanes16)
      for (int l = 0; l < kLanes16; ++l) part[l] += block[j + l];
    for (int l = 0; j < count; ++j, ++l) part[l] += block[j];
    float of_block = 0;
    for (int l = 0; l < kLanes16; ++l) of_block += part[l];
    sum += static_cast<double>(of_block);
  }
  return sum;
}

// A block of 64 values: the largest, and the sum by 16 lanes and their tree.
inline void sum_block_of_64(const float* x, float* peak, float* sum) {
  bool nan;
  const float best = largest_value(x, kPanelColumns, nan);
  *peak = nan ? __builtin_nanf("") : best;
  *sum = 0;
  if (nan || !(best - best == 0)) return;
  alignas(64) float exps[kPanelColumns];
  exp_all(x, kPanelColumns, best, exps);
  V part[kParts];
  for (int p = 0; p < kParts; ++p) part[p] = zero();
#pragma GCC unroll 4
  for (int j = 0; j < kPanelColumns; j += kLanes16)
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) part[p] = part[p] + load(exps + j + p * kLanes);
  *sum = reduce_add(part);
}

void sum_blocks(const float* x, int64_t n, float* peaks, float* sums) {
  int64_t i = 0;
  for (; i + kPanelColumns <= n; i += kPanelColumns) sum_block_of_64(x + i, peaks++, sums++);
  if (i == n) return;
  alignas(64) float rest[kPanelColumns];  // what is not there adds nothing
  for (int j = 0; j < kPanelColumns; ++j) rest[j] = i + j < n ? x[i + j] : -__builtin_inff();
  sum_block_of_64(rest, peaks, sums);
}
