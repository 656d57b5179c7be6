// Encoder attention of one head with int16 operands: twice the products of an f32 instruction, and
// sums that are exact. A row of queries or of keys has a scale, so has a column of values of
// kRagged16Keys keys; the exponentials of scores all have one. Nothing depends on which queries are
// taken together.
//
// A NaN or an infinity makes every output NaN that depends on it.

// The largest integers of exponentials and of values: kRagged16Keys of their products fit int32.
constexpr int kTopExponential = 16383, kTopValue = 1023;
static_assert(int64_t{kRagged16Keys} * kTopExponential * kTopValue < INT32_MAX);

constexpr int kPairLanes = 2 * kLanes;  // int16 of a vector

// Words of a row of queries or keys, pairs of values of a column.
inline int64_t dim_steps(const RaggedHead& h) { return round_up(h.head_dim, kPairLanes) / 2; }
inline int64_t key_steps(const RaggedHead& h) { return round_up(h.keys, kPairLanes) / 2; }

// The largest integers of queries and of keys: a head's products of them fit int32.
inline float top_of_dims(const RaggedHead& h) {
  const double top = __builtin_floor(__builtin_sqrt(INT32_MAX / (2.0 * dim_steps(h))));
  return top < INT16_MAX ? static_cast<float>(top) : INT16_MAX;
}

// `packed`: panels of keys, [ceil(keys / 64)][dim_steps][64], then of values, [ceil(head_dim /
// 64)][key_steps][64], of pairs of int16. Then the scales of keys, [ceil(keys / 64)][64], and of
// values, [ceil(keys / kRagged16Keys)][ceil(head_dim / 64)][64].
struct PackedI16 {
  explicit PackedI16(const RaggedHead& h)
      : width(round_up(h.head_dim, kPanelColumns)),
        keys(reinterpret_cast<uint32_t*>(h.packed)),
        values(keys + round_up(h.keys, kPanelColumns) * dim_steps(h)),
        key_scales(reinterpret_cast<float*>(values + key_steps(h) * width)),
        value_scales(key_scales + round_up(h.keys, kPanelColumns)) {}
  float* scales_of_block(int64_t first_key) const {
    return value_scales + first_key / kRagged16Keys * width;
  }

  int64_t width;
  uint32_t* keys;
  uint32_t* values;
  float* key_scales;
  float* value_scales;
};

inline __m256i integers_of(V x) { return _mm256_cvtps_epi32(x); }
inline void store_words(void* p, __m256i words) {
  _mm256_storeu_si256(static_cast<__m256i*>(p), words);
}
// Lanes that fit int16, those of a first.
inline __m256i pairs_of(__m256i a, __m256i b) {
  return _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xd8);  // packs works within 128 bits
}

// Integers are x * inverse, x is about integers * scale.
struct IntegerScale {
  float inverse, scale;
};
inline IntegerScale integer_scale(uint32_t largest_bits, float top) {
  if (largest_bits >= kInfinityBits) return {0, __builtin_nanf("")};
  const float largest = __builtin_bit_cast(float, largest_bits);
  if (largest < kLeastRange) return {0, 0};
  return {top / largest, largest / top};
}

// The n elements of x as integers, zeros behind them; returns their scale.
inline float integer_row(const float* x, int64_t n, float top, int64_t steps, uint32_t* out) {
  const IntegerScale scale = integer_scale(largest_magnitude(x, n), top);
  if (scale.inverse == 0) n = 0;
  const V inverse = set1(scale.inverse);
  for (int64_t d = 0; d < 2 * steps; d += kPairLanes) {
    const V low = load_n(x + d, lanes_of(n - d)) * inverse;
    const V high = load_n(x + d + kLanes, lanes_of(n - d - kLanes)) * inverse;
    store_words(out + d / 2, pairs_of(integers_of(low), integers_of(high)));
  }
  return scale.scale;
}

// panel[s][j] = the pair s of key j; zero from `keys` to 64. Returns whether a key is not finite.
inline bool pack_integer_keys(const RaggedHead& h, int64_t j0, uint32_t* panel, float* scales) {
  const int64_t steps = dim_steps(h);
  const float top = top_of_dims(h);
  float* rows = h.scratch;
  bool lost = false;
  for (int64_t j = 0; j < kPanelColumns; j += 8) {
    for (int64_t i = 0; i < 8; ++i) {
      const int64_t key = j0 + j + i;
      if (key < h.keys) prefetch_row(h.k + (key + kRowsAhead) * h.ldk, h.head_dim);
      scales[j + i] = integer_row(h.k + key * h.ldk, key < h.keys ? h.head_dim : 0, top, steps,
                                  reinterpret_cast<uint32_t*>(rows) + i * steps);
      lost = lost || scales[j + i] != scales[j + i];
    }
    for (int64_t s = 0; s < steps; s += 8)
      transpose8(rows + s, steps, reinterpret_cast<float*>(panel) + s * kPanelColumns + j,
                 kPanelColumns);
  }
  return lost;
}

// panel[s][d] = values d of keys j + 2 s and j + 2 s + 1, for the n keys of a block and for
// `columns` from d0 on; zero beyond them.
inline void pack_integer_values(const RaggedHead& h, int64_t j, int64_t n, int d0, int columns,
                                uint32_t* panel, float* scales) {
  alignas(64) float inverse[kPanelColumns];
  const float* first = h.v + j * h.ldv + d0;
  for (int d = 0; d < kPanelColumns; d += kLanes) {
    const int lanes = lanes_of(columns - d);
    V largest = zero();
    for (int64_t i = 0; i < n; ++i)
      largest = max_i32(largest, abs(load_n(first + i * h.ldv + d, lanes)));
    store(inverse + d, largest);
    for (int c = d; c < d + kLanes; ++c) {
      const IntegerScale scale = integer_scale(bits_of(inverse[c]), kTopValue);
      inverse[c] = scale.inverse;
      scales[c] = scale.scale;
    }
  }
  // What is not finite, times 0, becomes 2^31 as an integer, whose lower half is 0.
  const auto integers = [&](int64_t i, int d) {
    return integers_of(load_n(first + i * h.ldv + d, i < n ? lanes_of(columns - d) : 0) *
                       load(inverse + d));
  };
  for (int64_t s = 0; s < round_up(n, kPairLanes) / 2; ++s, panel += kPanelColumns)
    for (int d = 0; d < kPanelColumns; d += kLanes)
      store_words(panel + d,
                  _mm256_blend_epi16(integers(2 * s, d),
                                     _mm256_slli_epi32(integers(2 * s + 1, d), 16), 0xaa));
}

inline int64_t keys_of_block(const RaggedHead& h, int64_t j) {
  return h.keys - j < kRagged16Keys ? h.keys - j : kRagged16Keys;
}

void ragged_pack_i16(const RaggedHead& h) {
  const PackedI16 packed(h);
  bool lost = false;
  for (int64_t j = 0; j < h.keys; j += kPanelColumns)
    lost |= pack_integer_keys(h, j, packed.keys + j * dim_steps(h), packed.key_scales + j);
  for (int64_t j = 0; j < h.keys; j += kRagged16Keys) {
    uint32_t* values = packed.values + j / 2 * kPanelColumns;
    float* scales = packed.scales_of_block(j);
    for (int d0 = 0; d0 < h.head_dim; d0 += kPanelColumns) {
      pack_integer_values(h, j, keys_of_block(h, j), d0, columns_from(d0, h.head_dim), values,
                          scales + d0);
      values += key_steps(h) * kPanelColumns;
    }
  }
  if (lost)  // all queries see the key
    for (int64_t d = 0; d < packed.width; ++d) packed.value_scales[d] = __builtin_nanf("");
}

// c = x w, as int32, for up to kRaggedRows rows.
inline void multiply_integers(const uint32_t* x, int64_t ldx, int64_t rows, const uint32_t* w,
                              int64_t steps, int64_t columns, float* c, int64_t ldc) {
  GemmBlock b =
      plain_block(nullptr, ldx, rows, nullptr, steps, round_up(columns, kPairLanes), c, ldc);
  b.x = x;
  b.w = w;
  gemm<StepI16>(b);
}

// Integers become scores in their place, n of them, a multiple of kPairLanes; returns the largest.
inline float scores_of_integers(float* p, int64_t n, const float* key_scales, float row_scale) {
  const V scale = set1(row_scale);
  V best[kParts];
  for (V& b : best) b = set1(-__builtin_inff());
  for (int64_t j = 0; j < n; j += kParts * kLanes)
    for (int i = 0; i < kParts; ++i) {
      const int64_t at = j + i * kLanes;
      const V score = float_of_i32(load(p + at)) * (load(key_scales + at) * scale);
      store(p + at, score);
      best[i] = max(best[i], score);
    }
  return reduce_max(best);
}

// kTopExponential 2^x for x <= 0, within 8e-5 of it, as integers; NaN gives any.
inline __m256i exponential_integers(V x) {
  x = max(x, set1(-30.0f));
  const V whole = _mm256_floor_ps(x), f = x - whole;
  V p = set1(kTopExponential * 7.802452147e-02f);
  p = fma(p, f, set1(kTopExponential * 2.260671556e-01f));
  p = fma(p, f, set1(kTopExponential * 6.958335638e-01f));
  p = fma(p, f, set1(kTopExponential * 9.999251962e-01f));
  const __m256i exponents = _mm256_slli_epi32(integers_of(whole), 23);
  return integers_of(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponents)));
}

// The exponentials of n scores, a multiple of kPairLanes, where the scores lay, as pairs.
inline void soften_to_integers(float* p, int64_t n, SoftRow& row) {
  const V scale = set1(kLog2e), shift = shift_of(row);
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i sum = _mm256_setzero_si256();
  for (int64_t j = 0; j < n; j += kPairLanes) {
    const __m256i low = exponential_integers(fma(load(p + j), scale, shift));
    const __m256i high = exponential_integers(fma(load(p + j + kLanes), scale, shift));
    const __m256i pairs = pairs_of(low, high);
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    store_words(p + j / 2, pairs);
  }
  row.sum = row.sum + _mm256_cvtepi32_ps(sum);
}

// NaN if a score is.
inline float probe_of(const float* scores, int64_t n) {
  for (int64_t j = 0; j < n; j += kLanes)
    if (any_nan(load(scores + j))) return __builtin_nanf("");
  return 0;
}

// Some queries of a head, block by block of keys.
struct IntegerRows {
  explicit IntegerRows(const RaggedHead& head) : h(head), packed(head) {}

  const RaggedHead& h;
  const PackedI16 packed;
  int64_t steps = dim_steps(h), width = packed.width;
  int64_t lds = kRagged16Keys + kLanes16, lda = width + kLanes16;
  uint32_t* q = reinterpret_cast<uint32_t*>(h.scratch);  // [kRaggedRows][steps]
  float* scores = h.scratch + kRaggedRows * steps;       // [kRaggedRows][lds]
  float* acc = scores + kRaggedRows * lds;               // [kRaggedRows][lda]
  float* tile = acc + kRaggedRows * lda;                 // [kRaggedRows][64]
  int64_t row = 0, rows = 0;
  SoftRow soft[kRaggedRows];
  float scales[kRaggedRows];  // of queries
  float probes[kRaggedRows];  // NaN if something is not finite

  void begin(int64_t first, int64_t count) {
    row = first;
    rows = count;
    for (int64_t i = 0; i < rows; ++i) {
      soft[i] = {-__builtin_inff(), zero()};
      prefetch_row(h.q + (row + kRaggedRows + i) * h.ldq, h.head_dim);
      scales[i] = h.scale * integer_row(h.q + (row + i) * h.ldq, h.head_dim, top_of_dims(h), steps,
                                        q + i * steps);
      probes[i] = 0 * scales[i];
    }
  }

  // The scores of the n keys from j on, a multiple of kPairLanes with what fills them up.
  void score(int64_t j, int64_t n, int64_t padded) {
    for (int64_t i = 0; i < n; i += kPanelColumns)
      multiply_integers(q, steps, rows, packed.keys + (j + i) * steps, steps,
                        padded - i < kPanelColumns ? padded - i : kPanelColumns, scores + i, lds);
    const bool biased = h.bias.values != nullptr;
    const bool plain = n == padded && !biased && h.soft_cap <= 0;
    for (int64_t i = 0; i < rows; ++i) {
      float* p = scores + i * lds;
      float top = scores_of_integers(p, padded, packed.key_scales + j, scales[i]);
      if (!plain) {
        adjust_block_scores(h, row + i, j, n, kPairLanes, p);
        top = largest_of(p, padded);
        if (biased) probes[i] += probe_of(p, padded);
      }
      if (top > soft[i].top) {
        if (j > 0) raise_top(soft[i], top, acc + i * lda, width);
        soft[i].top = top;
      }
      soften_to_integers(p, padded, soft[i]);
    }
  }

  void add_values(int64_t j, int64_t padded) {
    const uint32_t* values = packed.values + j / 2 * kPanelColumns;
    const float* value_scales = packed.scales_of_block(j);
    for (int d0 = 0; d0 < h.head_dim; d0 += kPanelColumns) {
      const int64_t columns = round_up(columns_from(d0, h.head_dim), kPairLanes);
      multiply_integers(reinterpret_cast<const uint32_t*>(scores), lds, rows, values, padded / 2,
                        columns, tile, kPanelColumns);
      for (int64_t i = 0; i < rows; ++i)
        for (int64_t d = 0; d < columns; d += kLanes) {
          float* to = acc + i * lda + d0 + d;
          const V sums = float_of_i32(load(tile + i * kPanelColumns + d));
          store(to, fma(sums, load(value_scales + d0 + d), j > 0 ? load(to) : zero()));
        }
      values += key_steps(h) * kPanelColumns;
    }
  }

  void finish() const {
    for (int64_t i = 0; i < rows; ++i) {
      V sum[kParts] = {soft[i].sum};
      for (int part = 1; part < kParts; ++part) sum[part] = zero();
      // An infinite score makes it NaN, as the probe does.
      const V inverse = set1(1.0f / reduce_add(sum) + probes[i] + 0 * soft[i].top);
      float* out = h.out + (row + i) * h.ldo;
      for (int64_t d = 0; d < h.head_dim; d += kLanes) {
        const V v = load(acc + i * lda + d) * inverse;
        if (d + kLanes <= h.head_dim)  // masked stores are slow
          store(out + d, v);
        else
          store_n(out + d, v, lanes_of(h.head_dim - d));
      }
    }
  }
};

void ragged_attend_i16(const RaggedHead& h) {
  IntegerRows some(h);
  for (int64_t row = 0; row < h.queries; row += kRaggedRows) {
    some.begin(row, h.queries - row < kRaggedRows ? h.queries - row : kRaggedRows);
    for (int64_t j = 0; j < h.keys; j += kRagged16Keys) {
      const int64_t n = keys_of_block(h, j), padded = round_up(n, kPairLanes);
      some.score(j, n, padded);
      some.add_values(j, padded);
    }
    some.finish();
  }
}
