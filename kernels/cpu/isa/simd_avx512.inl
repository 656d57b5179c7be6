// Vectors of sixteen floats.
constexpr int kLanes = 16;
typedef __m512 V;

inline V zero() { return _mm512_setzero_ps(); }
inline V set1(float x) { return _mm512_set1_ps(x); }
inline V load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, V v) { _mm512_storeu_ps(p, v); }
// Past the caches, to multiples of 64 bytes; seen by other threads after end_streams().
constexpr bool kStreams = true;
inline void stream(float* p, V v) { _mm512_stream_ps(p, v); }
inline void end_streams() { _mm_sfence(); }
inline __mmask16 first_lanes(int n) { return static_cast<__mmask16>((1u << n) - 1u); }
// The first n lanes, 0 <= n <= kLanes; the others are zero, or are not touched.
inline V load_n(const float* p, int n) { return _mm512_maskz_loadu_ps(first_lanes(n), p); }
inline void store_n(float* p, V v, int n) { _mm512_mask_storeu_ps(p, first_lanes(n), v); }
inline V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
inline V max(V a, V b) { return _mm512_max_ps(a, b); }
inline V min(V a, V b) { return _mm512_min_ps(a, b); }
inline V abs(V a) { return _mm512_abs_ps(a); }
// a < b ? x : y
inline V select_less(V a, V b, V x, V y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
}
inline bool any_nan(V a) { return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q) != 0; }
// a 2^n for integral n in [-160, 140], rounded once.
inline V scale(V a, V n) { return _mm512_scalef_ps(a, n); }
// a 2^n, but 0 where x < -126.
inline V scale_flushed(V a, V n, V x) {
  const __mmask16 keep = _mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(keep, a, n);
}
// To the nearest integer, ties to even, for |x| < 2^22.
inline V round_nearest(V x) {
  return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
inline V load_bf16(const uint16_t* p) {
  const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
inline V load_bf16_n(const uint16_t* p, int n) {
  const __m256i h = _mm256_maskz_loadu_epi16(first_lanes(n), p);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
// The halves of the 32-bit lanes as floats: the even and the odd elements of bf16 pairs.
inline V low_bf16(V pairs) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(pairs), 16));
}
inline V high_bf16(V pairs) {
  return _mm512_and_ps(pairs, _mm512_castsi512_ps(_mm512_set1_epi32(-65536)));
}
// The bytes 0 and 2, or 1 and 3, of the 32-bit lanes as pairs of int16.
inline V low_i8(V quads) {
  return _mm512_castsi512_ps(
      _mm512_srai_epi16(_mm512_slli_epi16(_mm512_castps_si512(quads), 8), 8));
}
inline V high_i8(V quads) {
  return _mm512_castsi512_ps(_mm512_srai_epi16(_mm512_castps_si512(quads), 8));
}
// On the bits of lanes as int32: acc + the products of int16 pairs, conversion, differences, and
// the larger one.
inline V add_i16_products(V x, V w, V acc) {
  return _mm512_castsi512_ps(_mm512_add_epi32(
      _mm512_castps_si512(acc), _mm512_madd_epi16(_mm512_castps_si512(x), _mm512_castps_si512(w))));
}
// On the bits of lanes as pairs of int16: acc + the sums of two products, of bytes of w (unsigned,
// below 16) and of x (signed). Sums wrap around.
inline V add_u4_i8_products(V acc, V w, V x) {
  return _mm512_castsi512_ps(
      _mm512_add_epi16(_mm512_castps_si512(acc),
                       _mm512_maddubs_epi16(_mm512_castps_si512(w), _mm512_castps_si512(x))));
}
// Bytes with a sign as int32.
inline V load_i8(const int8_t* p) {
  return _mm512_castsi512_ps(
      _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline V float_of_i32(V a) { return _mm512_cvtepi32_ps(_mm512_castps_si512(a)); }
inline V subtract_i32(V a, V b) {
  return _mm512_castsi512_ps(_mm512_sub_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
inline V max_i32(V a, V b) {
  return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
}
// Sum of 16 lanes along a tree: lanes 8, 4, 2 and 1 apart.
inline float reduce_add(const V (&a)[1]) {
  const __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a[0]), _mm512_extractf32x8_ps(a[0], 1));
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
inline float reduce_max(const V (&a)[1]) {
  const __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a[0]), _mm512_extractf32x8_ps(a[0], 1));
  const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
}
inline V sqrt_of(V a) { return _mm512_sqrt_ps(a); }

// Reductions of several keys at once, along the tree of reduce_add: fold() does nothing for a
// vector of 16, reduce_folded() sums kFoldedKeys of them.
constexpr int kFoldedKeys = 16;
inline V fold(const V (&a)[1]) { return a[0]; }
inline void reduce_folded(const V (&a)[16], float* out) {
  V b[8], c[4], d[2];
  // Two keys in a vector: b[i] has i and i + 8.
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    b[i] = _mm512_shuffle_f32x4(a[i], a[i + 8], 0x44) + _mm512_shuffle_f32x4(a[i], a[i + 8], 0xee);
    // Four: i, i + 8, i + 4, i + 12.
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i)
    c[i] = _mm512_shuffle_f32x4(b[i], b[i + 4], 0x88) + _mm512_shuffle_f32x4(b[i], b[i + 4], 0xdd);
    // Eight: each of 0, 8, 4, 12 plus i and plus i + 2, two lanes each.
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i)
    d[i] = _mm512_shuffle_ps(c[i], c[i + 2], 0x44) + _mm512_shuffle_ps(c[i], c[i + 2], 0xee);
  // Sixteen: 0 2 1 3, then the same plus 8, plus 4, plus 12.
  V e = _mm512_shuffle_ps(d[0], d[1], 0x88) + _mm512_shuffle_ps(d[0], d[1], 0xdd);
  e = _mm512_permute_ps(e, 0xd8);
  store(out, _mm512_shuffle_f32x4(e, e, 0xd8));
}
