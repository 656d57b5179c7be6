// Ops on single rows. Reductions have 16 lanes: lane i takes elements i, i + 16, ... in order.

// Loads lanes [0, n) of 16 into parts, zero beyond.
inline void load16(V (&v)[kParts], const float* p, int64_t n) {
  if (n >= kLanes16) {
#pragma GCC unroll 16
    for (int i = 0; i < kParts; ++i) v[i] = load(p + i * kLanes);
    return;
  }
  for (int i = 0; i < kParts; ++i) {
    const int64_t rest = n - i * kLanes;
    v[i] = rest <= 0 ? zero()
                     : load_n(p + i * kLanes, rest < kLanes ? static_cast<int>(rest) : kLanes);
  }
}

inline uint32_t bits_of(float f) {
  uint32_t u;
  __builtin_memcpy(&u, &f, sizeof u);
  return u;
}

// The bits of x rounded to bf16, as a float.
inline uint32_t round_to_bf16(float x) {
  const uint32_t u = bits_of(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (u | 0x400000u) & 0xffff0000u;
  return (u + 0x7fffu + ((u >> 16) & 1u)) & 0xffff0000u;
}

#if defined(TANDEM_ISA_BF16) || defined(TANDEM_ISA_BFDOT)
inline void to_bf16_steps(const float* x, int64_t k, uint32_t* out) {
  int64_t i = 0;
#ifdef TANDEM_ISA_BF16
  for (; i + 32 <= k; i += 32)
    _mm512_storeu_si512(out + i / 2, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + i + 16),
                                                                  _mm512_loadu_ps(x + i)));
#endif
  for (; i + 2 <= k; i += 2) out[i / 2] = round_to_bf16(x[i]) >> 16 | round_to_bf16(x[i + 1]);
  if (i < k) out[i / 2] = round_to_bf16(x[i]) >> 16;
}
#else
inline void to_bf16_steps(const float* x, int64_t k, uint32_t* out) {
  for (int64_t i = 0; i < k; ++i) out[i] = round_to_bf16(x[i]);
  if (k % 2 != 0) out[k] = 0;
}
#endif

#ifdef __AVX512BW__
// Not vcvtneps2bf16, which takes subnormal numbers for zero.
inline __m256i rounded_bf16(__m512 x) {
  const __m512i u = _mm512_castps_si512(x), high = _mm512_srli_epi32(u, 16);
  const __m512i even = _mm512_and_si512(high, _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), even);
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
  return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(_mm512_srli_epi32(up, 16), nan, quiet));
}

inline void to_bf16(const float* x, int64_t n, uint16_t* out) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), rounded_bf16(load(x + i)));
  if (i < n)
    _mm256_mask_storeu_epi16(out + i, static_cast<__mmask16>((1u << (n - i)) - 1u),
                             rounded_bf16(load_n(x + i, static_cast<int>(n - i))));
}
#else
inline void to_bf16(const float* x, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<uint16_t>(round_to_bf16(x[i]) >> 16);
}
#endif

inline void multiply(float* x, const float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(x + i, load(x + i) * load(y + i));
  if (i < n) {
    const int rest = static_cast<int>(n - i);
    store_n(x + i, load_n(x + i, rest) * load_n(y + i, rest), rest);
  }
}

// x + residual at [i, i + n) of 16.
inline void load_sum(V (&v)[kParts], const LayerNormRow& r, int64_t i, int64_t n) {
  load16(v, r.x + i, n);
  if (r.residual == nullptr) return;
  V t[kParts];
  load16(t, r.residual + i, n);
#pragma GCC unroll 16
  for (int p = 0; p < kParts; ++p) v[p] = v[p] + t[p];
}

float mean_of(const LayerNormRow& r) {
  V sum[kParts], v[kParts];
  for (int p = 0; p < kParts; ++p) sum[p] = zero();
  for (int64_t i = 0; i < r.size; i += kLanes16) {
    load_sum(v, r, i, r.size - i);
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) sum[p] = sum[p] + v[p];
  }
  return reduce_add(sum) / static_cast<float>(r.size);
}

// The sum is stored; what is left to do is to norm it.
LayerNormRow with_sum(LayerNormRow r) {
  int64_t i = 0;
  const auto added = [&](int n) {
    const V x = n == kLanes ? load(r.x + i) : load_n(r.x + i, n);
    if (r.residual == nullptr) return x;
    return x + (n == kLanes ? load(r.residual + i) : load_n(r.residual + i, n));
  };
  for (; i + kLanes <= r.size; i += kLanes) store(r.sum + i, added(kLanes));
  if (i < r.size) {
    const int rest = static_cast<int>(r.size - i);
    store_n(r.sum + i, added(rest), rest);
  }
  r.x = r.sum;
  r.residual = r.sum = nullptr;
  return r;
}

inline void layer_norm_row(const LayerNormRow& r) {
  if (r.sum != nullptr) {
    layer_norm_row(with_sum(r));
    return;
  }
  const float mean = r.rms ? 0.0f : mean_of(r);
  V squares[kParts], v[kParts];
  for (int p = 0; p < kParts; ++p) squares[p] = zero();
  for (int64_t i = 0; i < r.size; i += kLanes16) {
    load_sum(v, r, i, r.size - i);
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) {
      V d = v[p] - set1(mean);
      const int64_t rest = r.size - i - p * kLanes;
      if (rest < kLanes) {  // lanes beyond the row do not count
        alignas(64) float t[kLanes];
        store(t, d);
        d = rest <= 0 ? zero() : load_n(t, static_cast<int>(rest));
      }
      squares[p] = fma(d, d, squares[p]);
    }
  }
  const float variance = reduce_add(squares) / static_cast<float>(r.size);
  const float scale = 1.0f / __builtin_sqrtf(variance + r.eps);

  for (int64_t i = 0; i < r.size; i += kLanes16) {
    V weight[kParts], bias[kParts];
    const int64_t rest = r.size - i;
    load_sum(v, r, i, rest);
    load16(weight, r.weight + i, rest);
    if (r.bias != nullptr)
      load16(bias, r.bias + i, rest);
    else
      for (int p = 0; p < kParts; ++p) bias[p] = zero();
#pragma GCC unroll 16
    for (int p = 0; p < kParts; ++p) {
      const V y = fma((v[p] - set1(mean)) * set1(scale), weight[p], bias[p]);
      const int64_t left = rest - p * kLanes;
      if (left >= kLanes) {
        store(r.out + i + p * kLanes, y);
      } else if (left > 0) {
        store_n(r.out + i + p * kLanes, y, static_cast<int>(left));
      }
    }
  }
}
