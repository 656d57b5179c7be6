// Vectors of four floats, for 64-bit ARM.
constexpr int kLanes = 4;
typedef float32x4_t V;

inline V zero() { return vdupq_n_f32(0.0f); }
inline V set1(float x) { return vdupq_n_f32(x); }
inline V load(const float* p) { return vld1q_f32(p); }
inline void store(float* p, V v) { vst1q_f32(p, v); }
// Not past the caches here.
constexpr bool kStreams = false;
inline void stream(float* p, V v) { store(p, v); }
inline void end_streams() {}
// The first n lanes, 0 <= n <= kLanes; the others are zero, or are not touched.
inline V load_n(const float* p, int n) {
  float t[kLanes] = {};
  for (int i = 0; i < n; ++i) t[i] = p[i];
  return load(t);
}
inline void store_n(float* p, V v, int n) {
  float t[kLanes];
  store(t, v);
  for (int i = 0; i < n; ++i) p[i] = t[i];
}
inline V fma(V a, V b, V c) { return vfmaq_f32(c, a, b); }
// As maxps and minps of x86: b where the lanes do not compare. (fmax would give a NaN.)
inline V max(V a, V b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
inline V min(V a, V b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
inline V abs(V a) { return vabsq_f32(a); }
// a < b ? x : y
inline V select_less(V a, V b, V x, V y) { return vbslq_f32(vcltq_f32(a, b), x, y); }
inline bool any_nan(V a) { return vminvq_u32(vceqq_f32(a, a)) == 0; }

inline int32x4_t as_i32(V a) { return vreinterpretq_s32_f32(a); }
inline int16x8_t as_i16(V a) { return vreinterpretq_s16_f32(a); }
inline int8x16_t as_i8(V a) { return vreinterpretq_s8_f32(a); }
inline V from_i32(int32x4_t a) { return vreinterpretq_f32_s32(a); }
inline V from_i16(int16x8_t a) { return vreinterpretq_f32_s16(a); }

inline V power_of_two(int32x4_t n) {
  return from_i32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}
// a 2^n for integral n in [-160, 140], rounded once.
inline V scale(V a, V n) {
  const int32x4_t e = vcvtnq_s32_f32(n), half = vshrq_n_s32(e, 1);
  return a * power_of_two(half) * power_of_two(vsubq_s32(e, half));
}
// a 2^n, but 0 where x < -126.
inline V scale_flushed(V a, V n, V x) {
  const V scaled = a * power_of_two(vcvtnq_s32_f32(n));
  return select_less(x, set1(-126.0f), zero(), scaled);
}
// To the nearest integer, ties to even, for |x| < 2^22.
inline V round_nearest(V x) { return vrndnq_f32(x); }

inline V load_bf16(const uint16_t* p) {
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}
inline V load_bf16_n(const uint16_t* p, int n) {
  uint16_t t[kLanes] = {};
  for (int i = 0; i < n; ++i) t[i] = p[i];
  return load_bf16(t);
}
// The halves of the 32-bit lanes as floats: the even and the odd elements of bf16 pairs.
inline V low_bf16(V pairs) { return from_i32(vshlq_n_s32(as_i32(pairs), 16)); }
inline V high_bf16(V pairs) { return from_i32(vandq_s32(as_i32(pairs), vdupq_n_s32(-65536))); }

// The bytes 0 and 2, or 1 and 3, of the 32-bit lanes as pairs of int16.
inline V low_i8(V quads) { return from_i16(vshrq_n_s16(vshlq_n_s16(as_i16(quads), 8), 8)); }
inline V high_i8(V quads) { return from_i16(vshrq_n_s16(as_i16(quads), 8)); }
// On the bits of lanes as int32: acc + the products of int16 pairs, conversion, differences, and
// the larger one.
inline V add_i16_products(V x, V w, V acc) {
  const int16x8_t a = as_i16(x), b = as_i16(w);
  const int32x4_t low = vmull_s16(vget_low_s16(a), vget_low_s16(b)), high = vmull_high_s16(a, b);
  return from_i32(vaddq_s32(as_i32(acc), vpaddq_s32(low, high)));
}
// On the bits of lanes as pairs of int16: acc + the sums of two products, of bytes of w (unsigned,
// below 16) and of x (signed). Sums wrap around.
inline V add_u4_i8_products(V acc, V w, V x) {
  const int8x16_t a = as_i8(w), b = as_i8(x);
  const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
  return from_i16(vaddq_s16(as_i16(acc), vpaddq_s16(low, high)));
}
// Bytes with a sign as int32.
inline V load_i8(const int8_t* p) {
  int32_t bytes;
  __builtin_memcpy(&bytes, p, sizeof bytes);
  const int8x8_t quads = vreinterpret_s8_s32(vdup_n_s32(bytes));
  return from_i32(vmovl_s16(vget_low_s16(vmovl_s8(quads))));
}
inline V float_of_i32(V a) { return vcvtq_f32_s32(as_i32(a)); }
inline V subtract_i32(V a, V b) { return from_i32(vsubq_s32(as_i32(a), as_i32(b))); }
inline V max_i32(V a, V b) { return from_i32(vmaxq_s32(as_i32(a), as_i32(b))); }

// Sum of 16 lanes along a tree: lanes 8, 4, 2 and 1 apart.
inline float reduce_add(const V (&a)[4]) {
  const V d = (a[0] + a[2]) + (a[1] + a[3]);
  const float32x2_t e = vadd_f32(vget_low_f32(d), vget_high_f32(d));
  return vget_lane_f32(e, 0) + vget_lane_f32(e, 1);
}
inline float reduce_max(const V (&a)[4]) {
  const V b = max(max(a[0], a[2]), max(a[1], a[3]));
  const float x = b[0] > b[2] ? b[0] : b[2], y = b[1] > b[3] ? b[1] : b[3];
  return x > y ? x : y;
}
inline V sqrt_of(V a) { return vsqrtq_f32(a); }

// Reductions of several keys at once, along the tree of reduce_add: fold() its first steps for one
// key, reduce_folded() the others for kFoldedKeys of them.
constexpr int kFoldedKeys = 4;
inline V fold(const V (&a)[4]) { return (a[0] + a[2]) + (a[1] + a[3]); }
inline void reduce_folded(const V (&a)[4], float* out) {
  float32x2_t halves[4];  // (0 + 2) and (1 + 3) of a key
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) halves[i] = vadd_f32(vget_low_f32(a[i]), vget_high_f32(a[i]));
  store(out, vpaddq_f32(vcombine_f32(halves[0], halves[1]), vcombine_f32(halves[2], halves[3])));
}

// to[d][j] = from[j][d] for four rows of four.
inline void transpose4(const float* from, int64_t ld_from, float* to, int64_t ld_to) {
  const float32x4x2_t even = vtrnq_f32(load(from), load(from + ld_from));
  const float32x4x2_t odd = vtrnq_f32(load(from + 2 * ld_from), load(from + 3 * ld_from));
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    const V a = even.val[i], b = odd.val[i];  // columns i and i + 2
    store(to + i * ld_to, vcombine_f32(vget_low_f32(a), vget_low_f32(b)));
    store(to + (i + 2) * ld_to, vcombine_f32(vget_high_f32(a), vget_high_f32(b)));
  }
}
// The same for eight rows of eight.
inline void transpose8(const float* from, int64_t ld_from, float* to, int64_t ld_to) {
  for (int d = 0; d < 8; d += 4)
    for (int j = 0; j < 8; j += 4)
      transpose4(from + j * ld_from + d, ld_from, to + d * ld_to + j, ld_to);
}
