// Vectors of four floats for any processor. Products are fused by fmaf, as on the others.
constexpr int kLanes = 4;
typedef float V __attribute__((vector_size(16)));

inline V zero() { return V{}; }
inline V set1(float x) { return V{x, x, x, x}; }
inline V load(const float* p) {
  V v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store(float* p, V v) { __builtin_memcpy(p, &v, sizeof v); }
// Not past the caches here.
constexpr bool kStreams = false;
inline void stream(float* p, V v) { store(p, v); }
inline void end_streams() {}
// The first n lanes, 0 <= n <= kLanes; the others are zero, or are not touched.
inline V load_n(const float* p, int n) {
  V v = zero();
  for (int i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
inline void store_n(float* p, V v, int n) {
  for (int i = 0; i < n; ++i) p[i] = v[i];
}
inline V fma(V a, V b, V c) {
  V v;
  for (int i = 0; i < kLanes; ++i) v[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return v;
}
// As maxps and minps: b where the lanes do not compare.
inline V max(V a, V b) {
  V v;
  for (int i = 0; i < kLanes; ++i) v[i] = a[i] > b[i] ? a[i] : b[i];
  return v;
}
inline V min(V a, V b) {
  V v;
  for (int i = 0; i < kLanes; ++i) v[i] = a[i] < b[i] ? a[i] : b[i];
  return v;
}
inline V abs(V a) {
  V v;
  for (int i = 0; i < kLanes; ++i) v[i] = __builtin_fabsf(a[i]);
  return v;
}
// a < b ? x : y
inline V select_less(V a, V b, V x, V y) {
  V v;
  for (int i = 0; i < kLanes; ++i) v[i] = a[i] < b[i] ? x[i] : y[i];
  return v;
}
inline bool any_nan(V a) {
  for (int i = 0; i < kLanes; ++i)
    if (a[i] != a[i]) return true;
  return false;
}
inline float power_of_two(int n) {
  const uint32_t bits = static_cast<uint32_t>(n + 127) << 23;
  float f;
  __builtin_memcpy(&f, &bits, sizeof f);
  return f;
}
// a 2^n for integral n in [-160, 140], rounded once.
inline V scale(V a, V n) {
  V v;
  for (int i = 0; i < kLanes; ++i) {
    const int e = n[i] == n[i] ? static_cast<int>(n[i]) : 0, half = e >> 1;
    v[i] = a[i] * power_of_two(half) * power_of_two(e - half);
  }
  return v;
}
// a 2^n, but 0 where x < -126.
inline V scale_flushed(V a, V n, V x) {
  V v;
  for (int i = 0; i < kLanes; ++i)
    v[i] = x[i] < -126.0f ? 0.0f
           : x[i] != x[i] ? x[i]
                          : a[i] * power_of_two(static_cast<int>(n[i]));
  return v;
}
// To the nearest integer, ties to even, for |x| < 2^22.
inline V round_nearest(V x) {
  const V big = set1(12582912.0f);  // 1.5 * 2^23
  return (x + big) - big;
}
inline V load_bf16(const uint16_t* p) {
  V v{};
  for (int i = 0; i < kLanes; ++i) {
    const uint32_t bits = static_cast<uint32_t>(p[i]) << 16;
    float f;
    __builtin_memcpy(&f, &bits, sizeof f);
    v[i] = f;
  }
  return v;
}
inline V load_bf16_n(const uint16_t* p, int n) {
  uint16_t t[kLanes] = {};
  for (int i = 0; i < n; ++i) t[i] = p[i];
  return load_bf16(t);
}
// The halves of the 32-bit lanes as floats: the even and the odd elements of bf16 pairs.
inline V low_bf16(V pairs) {
  V v;
  for (int i = 0; i < kLanes; ++i) {
    uint32_t bits;
    const float f = pairs[i];
    __builtin_memcpy(&bits, &f, sizeof bits);
    bits <<= 16;
    float low;
    __builtin_memcpy(&low, &bits, sizeof low);
    v[i] = low;
  }
  return v;
}
inline V high_bf16(V pairs) {
  V v;
  for (int i = 0; i < kLanes; ++i) {
    uint32_t bits;
    const float f = pairs[i];
    __builtin_memcpy(&bits, &f, sizeof bits);
    bits &= 0xffff0000u;
    float high;
    __builtin_memcpy(&high, &bits, sizeof high);
    v[i] = high;
  }
  return v;
}
// The bytes 0 and 2, or 1 and 3, of the 32-bit lanes as pairs of int16.
typedef int32_t VI32 __attribute__((vector_size(16)));
typedef int16_t VI16 __attribute__((vector_size(16)));
inline V low_i8(V quads) { return (V)(((VI16)quads << 8) >> 8); }
inline V high_i8(V quads) { return (V)((VI16)quads >> 8); }
// On the bits of lanes as int32: acc + the products of int16 pairs, conversion, differences, and
// the larger one.
inline V add_i16_products(V x, V w, V acc) {
  const VI32 a = (VI32)x, b = (VI32)w;
  const VI32 low = ((a << 16) >> 16) * ((b << 16) >> 16), high = (a >> 16) * (b >> 16);
  return (V)((VI32)acc + low + high);
}
// On the bits of lanes as pairs of int16: acc + the sums of two products, of bytes of w (unsigned,
// below 16) and of x (signed). Sums wrap around.
typedef uint16_t VU16 __attribute__((vector_size(16)));
inline V add_u4_i8_products(V acc, V w, V x) {
  const VI16 low = ((VI16)w & 0xff) * (((VI16)x << 8) >> 8), high = ((VI16)w >> 8) * ((VI16)x >> 8);
  return (V)((VU16)acc + (VU16)low + (VU16)high);
}
// Bytes with a sign as int32.
inline V load_i8(const int8_t* p) { return (V)(VI32{p[0], p[1], p[2], p[3]}); }
inline V float_of_i32(V a) { return __builtin_convertvector((VI32)a, V); }
inline V subtract_i32(V a, V b) { return (V)((VI32)a - (VI32)b); }
inline V max_i32(V a, V b) {
  const VI32 larger = (VI32)a > (VI32)b;
  return (V)(((VI32)a & larger) | ((VI32)b & ~larger));
}
// Sum of 16 lanes along a tree: lanes 8, 4, 2 and 1 apart.
inline float reduce_add(const V (&a)[4]) {
  const V b = a[0] + a[2], c = a[1] + a[3];
  const V d = b + c;
  return (d[0] + d[2]) + (d[1] + d[3]);
}
inline float reduce_max(const V (&a)[4]) {
  const V b = max(max(a[0], a[2]), max(a[1], a[3]));
  const float x = b[0] > b[2] ? b[0] : b[2], y = b[1] > b[3] ? b[1] : b[3];
  return x > y ? x : y;
}
inline V sqrt_of(V a) {
  V v;
  for (int i = 0; i < kLanes; ++i) v[i] = __builtin_sqrtf(a[i]);
  return v;
}

// Reductions of several keys at once, along the tree of reduce_add: fold() its first steps for one
// key, reduce_folded() the others for kFoldedKeys of them.
constexpr int kFoldedKeys = 4;
inline V fold(const V (&a)[4]) { return (a[0] + a[2]) + (a[1] + a[3]); }
inline void reduce_folded(const V (&a)[4], float* out) {
  for (int i = 0; i < 4; ++i) out[i] = (a[i][0] + a[i][2]) + (a[i][1] + a[i][3]);
}

// to[d][j] = from[j][d] for eight rows of eight.
inline void transpose8(const float* from, int64_t ld_from, float* to, int64_t ld_to) {
  for (int d = 0; d < 8; ++d)
    for (int j = 0; j < 8; ++j) to[d * ld_to + j] = from[j * ld_from + d];
}
