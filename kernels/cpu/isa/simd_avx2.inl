// Vectors of eight floats.
constexpr int kLanes = 8;
typedef __m256 V;

inline V zero() { return _mm256_setzero_ps(); }
inline V set1(float x) { return _mm256_set1_ps(x); }
inline V load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, V v) { _mm256_storeu_ps(p, v); }
// Not past the caches here.
constexpr bool kStreams = false;
inline void stream(float* p, V v) { store(p, v); }
inline void end_streams() {}
alignas(64) const int32_t kMaskWords[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
inline __m256i first_lanes(int n) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kMaskWords + 8 - n));
}
// The first n lanes, 0 <= n <= kLanes; the others are zero, or are not touched.
inline V load_n(const float* p, int n) { return _mm256_maskload_ps(p, first_lanes(n)); }
inline void store_n(float* p, V v, int n) { _mm256_maskstore_ps(p, first_lanes(n), v); }
inline V fma(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
inline V max(V a, V b) { return _mm256_max_ps(a, b); }
inline V min(V a, V b) { return _mm256_min_ps(a, b); }
inline V abs(V a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
// a < b ? x : y
inline V select_less(V a, V b, V x, V y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}
inline bool any_nan(V a) { return _mm256_movemask_ps(_mm256_cmp_ps(a, a, _CMP_UNORD_Q)) != 0; }
inline V power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
// a 2^n for integral n in [-160, 140], rounded once.
inline V scale(V a, V n) {
  const __m256i e = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(e, 1);
  return a * power_of_two(half) * power_of_two(_mm256_sub_epi32(e, half));
}
// a 2^n, but 0 where x < -126.
inline V scale_flushed(V a, V n, V x) {
  return _mm256_and_ps(a * power_of_two(_mm256_cvtps_epi32(n)),
                       _mm256_cmp_ps(x, _mm256_set1_ps(-126.0f), _CMP_NLT_UQ));
}
// To the nearest integer, ties to even, for |x| < 2^22.
inline V round_nearest(V x) {
  return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline V load_bf16(const uint16_t* p) {
  const __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
inline V load_bf16_n(const uint16_t* p, int n) {
  uint16_t t[kLanes] = {};
  for (int i = 0; i < n; ++i) t[i] = p[i];
  return load_bf16(t);
}
// The halves of the 32-bit lanes as floats: the even and the odd elements of bf16 pairs.
inline V low_bf16(V pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(pairs), 16));
}
inline V high_bf16(V pairs) {
  return _mm256_and_ps(pairs, _mm256_castsi256_ps(_mm256_set1_epi32(-65536)));
}
// On the bits of lanes as int32: acc + the products of int16 pairs, conversion, differences, and
// the larger one.
inline V add_i16_products(V x, V w, V acc) {
  return _mm256_castsi256_ps(_mm256_add_epi32(
      _mm256_castps_si256(acc), _mm256_madd_epi16(_mm256_castps_si256(x), _mm256_castps_si256(w))));
}
// On the bits of lanes as pairs of int16: acc + the sums of two products, of bytes of w (unsigned,
// below 16) and of x (signed). Sums wrap around.
inline V add_u4_i8_products(V acc, V w, V x) {
  return _mm256_castsi256_ps(
      _mm256_add_epi16(_mm256_castps_si256(acc),
                       _mm256_maddubs_epi16(_mm256_castps_si256(w), _mm256_castps_si256(x))));
}
// On the bits of lanes as int32: acc + the sums of four products, of bytes of a (unsigned) and of w
// (signed). Two products must fit int16.
inline V add_u8_i8_products(V acc, V a, V w) {
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_castps_si256(a), _mm256_castps_si256(w));
  return _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_castps_si256(acc), _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
}
// Bytes with a sign as int32.
inline V load_i8(const int8_t* p) {
  return _mm256_castsi256_ps(
      _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline V float_of_i32(V a) { return _mm256_cvtepi32_ps(_mm256_castps_si256(a)); }
inline V subtract_i32(V a, V b) {
  return _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}
inline V max_i32(V a, V b) {
  return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
}
// Sum of 16 lanes along a tree: lanes 8, 4, 2 and 1 apart.
inline float reduce_add(const V (&a)[2]) {
  const V b = a[0] + a[1];
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
inline float reduce_max(const V (&a)[2]) {
  const V b = max(a[0], a[1]);
  const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
}
inline V sqrt_of(V a) { return _mm256_sqrt_ps(a); }

// Reductions of several keys at once, along the tree of reduce_add: fold() its first step for one
// key, reduce_folded() the others for kFoldedKeys of them.
constexpr int kFoldedKeys = 8;
inline V fold(const V (&a)[2]) { return a[0] + a[1]; }
inline void reduce_folded(const V (&a)[8], float* out) {
  V b[4], c[2];  // four lanes a key: (0 4) (1 5) (2 6) (3 7); two lanes: (0 2 | 4 6) (1 3 | 5 7)
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    b[i] =
        _mm256_permute2f128_ps(a[i], a[i + 4], 0x20) + _mm256_permute2f128_ps(a[i], a[i + 4], 0x31);
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
    c[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44) + _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
  // Lanes of c[0] are keys 0 0 2 2 | 4 4 6 6.
  const V d = _mm256_shuffle_ps(c[0], c[1], 0x88) + _mm256_shuffle_ps(c[0], c[1], 0xdd);
  // 0 2 1 3 | 4 6 5 7
  store(out, _mm256_permute_ps(d, 0xd8));
}
