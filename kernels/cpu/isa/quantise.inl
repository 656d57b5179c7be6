// A row of activations in int8: q = round(127 x / max|x|), so that x is about q max|x| / 127. All
// levels give the same q. A row with a NaN or an infinity has no such scale: its q are 0 and its
// scale is NaN, which makes its products NaN. Rows of nothing but (almost) zeros have scale 0.

constexpr float kLeastRange = 1e-30f;  // below, 127 / max|x| could overflow
constexpr uint32_t kInfinityBits = 0x7f800000u;

// The bits of the largest |x|, whose order as integers is that of the floats, with infinity and
// then NaN on top.
inline uint32_t largest_magnitude(const float* x, int64_t k) {
  V top[4] = {zero(), zero(), zero(), zero()};
  int64_t i = 0;
  for (; i + 4 * kLanes <= k; i += 4 * kLanes)
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) top[j] = max_i32(top[j], abs(load(x + i + j * kLanes)));
  for (; i < k; i += kLanes) {
    const int n = k - i < kLanes ? static_cast<int>(k - i) : kLanes;
    top[0] = max_i32(top[0], abs(load_n(x + i, n)));
  }
  alignas(64) float lanes[kLanes];
  store(lanes, max_i32(max_i32(top[0], top[1]), max_i32(top[2], top[3])));
  uint32_t largest = 0;
  for (int l = 0; l < kLanes; ++l)
    if (bits_of(lanes[l]) > largest) largest = bits_of(lanes[l]);
  return largest;
}

// quantise_row() returns what the sums of the row's products lack (IsaKernels::to_i8_steps).
#if defined(TANDEM_ISA_VNNI)
// Bytes q + 128, four in a word; those beyond k are 128.
constexpr uint32_t kQuantisedZero = 0x80808080u;

inline __m512i scaled_i32(__m512 x, __m512 scale) { return _mm512_cvtps_epi32(x * scale); }

inline int32_t quantise_row(const float* x, int64_t k, float scale, uint32_t* out) {
  const __m512 s = _mm512_set1_ps(scale);
  // packs_* work within 128 bits: they leave the words of the four vectors as 0 4 8 12, 1 5 ...
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i offset = _mm512_set1_epi32(static_cast<int>(kQuantisedZero));
  int64_t i = 0;
  for (; i + 64 <= k; i += 64) {
    const __m512i low =
        _mm512_packs_epi32(scaled_i32(load(x + i), s), scaled_i32(load(x + i + 16), s));
    const __m512i high =
        _mm512_packs_epi32(scaled_i32(load(x + i + 32), s), scaled_i32(load(x + i + 48), s));
    const __m512i bytes = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
    _mm512_storeu_si512(out + i / 4, _mm512_xor_si512(bytes, offset));
  }
  for (; i < k; i += 16) {
    const int n = k - i < 16 ? static_cast<int>(k - i) : 16;
    const __m128i bytes = _mm512_cvtsepi32_epi8(scaled_i32(load_n(x + i, n), s));
    _mm_mask_storeu_epi32(out + i / 4, static_cast<__mmask8>((1u << ((n + 3) / 4)) - 1u),
                          _mm_xor_si128(bytes, _mm512_castsi512_si128(offset)));
  }
  return 0;
}
#elif defined(TANDEM_ISA_SDOT)
// Bytes q, four in a word; those beyond k are 0.
constexpr uint32_t kQuantisedZero = 0;

inline int32_t quantise_row(const float* x, int64_t k, float scale, uint32_t* out) {
  for (int64_t i = 0; i < k; i += kLanes16) {
    const int64_t n = k - i < kLanes16 ? k - i : kLanes16;
    V v[kParts];
    load16(v, x + i, n);
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) v[p] = v[p] * set1(scale);
    const V bytes = to_i8(v);
    __builtin_memcpy(out + i / 4, &bytes, static_cast<size_t>((n + 3) / 4) * 4);
  }
  return 0;
}
#elif defined(TANDEM_ISA_I8_MAGNITUDES)
// Magnitudes, then the signs' bytes, -1 or 0: two words; those beyond k are 0.
constexpr uint32_t kQuantisedZero = 0;

// Of 32 inputs. Adds what the sums lack to four parts.
inline void quantise_32(const float* x, __m256 scale, uint32_t* out, __m256i& offset) {
  const auto scaled = [&](int i) {
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x + i), scale));
  };
  // packs_* work within 128 bits: they leave the words of the four vectors as 0 2 4 6 1 3 5 7.
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i low = _mm256_packs_epi32(scaled(0), scaled(8));
  const __m256i high = _mm256_packs_epi32(scaled(16), scaled(24));
  const __m256i q = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
  const __m256i magnitudes = _mm256_abs_epi8(q);
  const __m256i signs = _mm256_cmpgt_epi8(_mm256_setzero_si256(), q);
  offset = _mm256_add_epi64(
      offset, _mm256_sad_epu8(_mm256_and_si256(magnitudes, signs), _mm256_setzero_si256()));
  const __m256i even = _mm256_unpacklo_epi32(magnitudes, signs);  // steps 0 1 4 5
  const __m256i odd = _mm256_unpackhi_epi32(magnitudes, signs);   // steps 2 3 6 7
  auto* to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(to + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}

inline int32_t quantise_row(const float* x, int64_t k, float scale, uint32_t* out) {
  const __m256 s = _mm256_set1_ps(scale);
  __m256i offset = _mm256_setzero_si256();
  int64_t i = 0;
  for (; i + 32 <= k; i += 32) quantise_32(x + i, s, out + i / 2, offset);
  if (i < k) {
    float rest[32] = {};
    uint32_t words[16];
    __builtin_memcpy(rest, x + i, static_cast<size_t>(k - i) * sizeof(float));
    quantise_32(rest, s, words, offset);
    __builtin_memcpy(out + i / 2, words, static_cast<size_t>((k - i + 3) / 4) * 8);
  }
  int64_t sums[4];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(sums), offset);
  return static_cast<int32_t>(sums[0] + sums[1] + sums[2] + sums[3]);
}
#else
// int16, in pairs of k 0 and 2, and 1 and 3, of a step: two words; those beyond k are 0.
constexpr uint32_t kQuantisedZero = 0;

inline int32_t quantise_row(const float* x, int64_t k, float scale, uint32_t* out) {
  for (int64_t i = 0; i < k; i += kLanes16) {
    alignas(64) float q[kLanes16];
    int16_t pairs[kLanes16];
    for (int64_t j = 0; j < kLanes16; j += kLanes) {
      const int64_t rest = k - i - j;
      const V v = rest >= kLanes ? load(x + i + j)
                  : rest > 0     ? load_n(x + i + j, static_cast<int>(rest))
                                 : zero();
      store(q + j, round_nearest(v * set1(scale)));
    }
    for (int j = 0; j < kLanes16; ++j)
      pairs[j / 4 * 4 + j % 4 / 2 + j % 2 * 2] = static_cast<int16_t>(q[j]);
    const int64_t steps = k - i < kLanes16 ? (k - i + 3) / 4 : kLanes16 / 4;
    __builtin_memcpy(out + i / 2, pairs, static_cast<size_t>(steps) * 8);
  }
  return 0;
}
#endif

// The scale of a row; 0 or NaN: its q are 0, else they are those of 127 / *largest.
inline float scale_of_row(const float* x, int64_t k, float* largest) {
  const uint32_t bits = largest_magnitude(x, k);
  __builtin_memcpy(largest, &bits, sizeof *largest);
  if (bits >= kInfinityBits) return __builtin_nanf("");
  return *largest < kLeastRange ? 0.0f : *largest / 127.0f;
}

inline float to_i8_steps(const float* x, int64_t k, uint32_t* out, int32_t* offset) {
  float largest;
  const float scale = scale_of_row(x, k, &largest);
  *offset = 0;
  if (scale > 0)
    *offset = quantise_row(x, k, 127.0f / largest, out);
  else
    for (int64_t i = 0; i < (k + 3) / 4 * StepI8::kWords; ++i) out[i] = kQuantisedZero;
  return scale;
}

inline float to_i8(const float* x, int64_t n, int8_t* out) {
  float largest;
  const float scale = scale_of_row(x, n, &largest);
  if (!(scale > 0)) {
    for (int64_t i = 0; i < n; ++i) out[i] = 0;
    return scale;
  }
  const V by = set1(127.0f / largest);
  for (int64_t i = 0; i < n; i += kLanes) {
    const int rest = n - i < kLanes ? static_cast<int>(n - i) : kLanes;
#ifdef __AVX512BW__
    _mm_mask_storeu_epi8(out + i, first_lanes(rest),
                         _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(load_n(x + i, rest) * by)));
#else
    float q[kLanes];
    store(q, round_nearest(load_n(x + i, rest) * by));
    for (int j = 0; j < rest; ++j) out[i + j] = static_cast<int8_t>(q[j]);
#endif
  }
  return scale;
}
