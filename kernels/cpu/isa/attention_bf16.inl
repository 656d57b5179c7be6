// Encoder attention of one head in bf16: queries, keys, values and the exponentials of scores are
// rounded to bf16, sums are f32. Keys are taken kRagged16Keys at a time from the first of the
// sequence on, with the largest score so far; nothing depends on which queries are taken together.
// Head dimensions and keys are filled up with zeros to whole tiles.

constexpr int kBf16Rows = kRagged16Rows;  // at a time

// Words of a row of queries or keys, pairs of values of a column.
inline int64_t dim_steps(const RaggedHead& h) { return round_up(h.head_dim, 32) / 2; }
inline int64_t key_steps(const RaggedHead& h) { return round_up(h.keys, 32) / 2; }

// Panels of keys, [ceil(keys / 64)][dim_steps][64], then of values, [ceil(head_dim /
// 64)][key_steps][64], of pairs of bf16.
inline uint32_t* packed_words(const RaggedHead& h) { return reinterpret_cast<uint32_t*>(h.packed); }
inline uint32_t* packed_value_words(const RaggedHead& h) {
  return packed_words(h) + round_up(h.keys, kPanelColumns) * dim_steps(h);
}

// x times scale, rounded, zeros behind its n values.
inline void rounded_steps(const float* x, int64_t n, float scale, int64_t steps, uint32_t* out) {
  for (int64_t d = 0; d < 2 * steps; d += 32) {
    const V low = load_n(x + d, lanes_of(n - d)) * set1(scale);
    const V high = load_n(x + d + 16, lanes_of(n - d - 16)) * set1(scale);
    _mm512_storeu_si512(out + d / 2, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
}

// panel[s][j] = the pair s of key j; zero from `keys` to 64.
inline void pack_key_steps(const RaggedHead& h, int64_t j0, uint32_t* panel) {
  const int64_t steps = dim_steps(h);
  float* rows = h.scratch;
  for (int64_t j = 0; j < kPanelColumns; j += 8) {
    for (int64_t i = 0; i < 8; ++i) {
      const int64_t key = j0 + j + i;
      if (key < h.keys) prefetch_row(h.k + (key + kRowsAhead) * h.ldk, h.head_dim);
      rounded_steps(h.k + key * h.ldk, key < h.keys ? h.head_dim : 0, 1.0f, steps,
                    reinterpret_cast<uint32_t*>(rows) + i * steps);
    }
    for (int64_t s = 0; s < steps; s += 8)
      transpose8(rows + s, steps, reinterpret_cast<float*>(panel) + s * kPanelColumns + j,
                 kPanelColumns);
  }
}

// panel[s][d] = values d of keys 2 s and 2 s + 1, of `columns`; zero beyond them and the keys.
inline void pack_value_steps(const RaggedHead& h, int d0, int columns, uint32_t* panel) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  for (int64_t s = 0; s < key_steps(h); ++s, panel += kPanelColumns) {
    const float* even = h.v + 2 * s * h.ldv + d0;
    const int of_even = 2 * s < h.keys ? columns : 0, of_odd = 2 * s + 1 < h.keys ? columns : 0;
    if (of_odd > 0) {
      prefetch_row(even + kRowsAhead * h.ldv, columns);
      prefetch_row(even + (kRowsAhead + 1) * h.ldv, columns);
    }
    for (int d = 0; d < kPanelColumns; d += 16) {
      const V low = load_n(even + d, lanes_of(of_even - d));
      const V high = load_n(even + h.ldv + d, lanes_of(of_odd - d));
      _mm512_storeu_si512(panel + d,
                          _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(high, low)));
    }
  }
}

void ragged_pack_bf16(const RaggedHead& h) {
  for (int64_t j = 0; j < h.keys; j += kPanelColumns)
    pack_key_steps(h, j, packed_words(h) + j * dim_steps(h));
  uint32_t* values = packed_value_words(h);
  for (int d0 = 0; d0 < h.head_dim; d0 += kPanelColumns, values += key_steps(h) * kPanelColumns)
    pack_value_steps(h, d0, columns_from(d0, h.head_dim), values);
}

// c (+)= x w for up to kBf16Rows rows of whole tiles.
inline void multiply_steps(const uint32_t* x, int64_t ldx, int64_t rows, const uint32_t* w,
                           int64_t steps, float* c, int64_t ldc, bool accumulate) {
  GemmBlock b{};
  b.x = x;
  b.ldx = ldx;
  b.rows = rows;
  b.w = w;
  b.steps = steps;
  b.columns = kPanelColumns;
  b.c = c;
  b.ldc = ldc;
  b.accumulate = accumulate;
#ifdef TANDEM_ISA_AMX
  const int low = rows < kTileRows ? static_cast<int>(rows) : kTileRows;
  run_tiles<StepBf16>(b, 0, {low, static_cast<int>(rows) - low, kTileSteps}, 0, steps / kTileSteps,
                      {});
#else
  gemm<StepBf16>(b);
#endif
}

// 2^x within 8e-5, which rounding to bf16 hides; 0 for -inf.
inline V exp2_rough(V x) {
  const V f = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  V p = set1(7.802452147e-02f);
  p = fma(p, f, set1(2.260671556e-01f));
  p = fma(p, f, set1(6.958335638e-01f));
  p = fma(p, f, set1(9.999251962e-01f));
  return scale(p, x);  // takes the floor of x
}

// The exponentials of n scores, a multiple of 32, rounded where the scores lay, as pairs.
inline void soften(float* p, int64_t n, SoftRow& row) {
  const V scale = set1(kLog2e);
  const V shift = shift_of(row);
  V sum = row.sum;
  for (int64_t j = 0; j < n; j += 32) {
    const V low = exp2_rough(fma(load(p + j), scale, shift));
    const V high = exp2_rough(fma(load(p + j + 16), scale, shift));
    sum = sum + (low + high);
    _mm512_storeu_si512(p + j / 2, (__m512i)_mm512_cvtne2ps_pbh(high, low));
  }
  row.sum = sum;
}

void ragged_attend_bf16(const RaggedHead& h) {
  const int64_t steps = dim_steps(h), width = round_up(h.head_dim, kPanelColumns);
  const int64_t lds = kRagged16Keys + 16, lda = width + 16;
  uint32_t* q = reinterpret_cast<uint32_t*>(h.scratch);  // [kBf16Rows][steps]
  float* scores = h.scratch + kBf16Rows * steps;         // [kBf16Rows][lds]
  float* acc = scores + kBf16Rows * lds;                 // [kBf16Rows][lda]
  SoftRow soft[kBf16Rows];
  float tops[kBf16Rows];
  for (int64_t row = 0; row < h.queries; row += kBf16Rows) {
    const int64_t rows = h.queries - row < kBf16Rows ? h.queries - row : kBf16Rows;
    for (int64_t i = 0; i < rows; ++i) {
      soft[i] = {-__builtin_inff(), zero()};
      prefetch_row(h.q + (row + kBf16Rows + i) * h.ldq, h.head_dim);
      rounded_steps(h.q + (row + i) * h.ldq, h.head_dim, h.scale, steps, q + i * steps);
    }
    for (int64_t j = 0; j < h.keys; j += kRagged16Keys) {
      const int64_t n = h.keys - j < kRagged16Keys ? h.keys - j : kRagged16Keys,
                    padded = round_up(n, 32);
      for (int64_t i = 0; i < n; i += kPanelColumns)
        multiply_steps(q, steps, rows, packed_words(h) + (j + i) * steps, steps, scores + i, lds,
                       false);
      for (int64_t i = 0; i < rows; ++i) {
        adjust_block_scores(h, row + i, j, n, 32, scores + i * lds);
        tops[i] = largest_of(scores + i * lds, padded);
      }
      for (int64_t i = 0; i < rows; ++i) {
        if (tops[i] > soft[i].top) {
          if (j > 0) raise_top(soft[i], tops[i], acc + i * lda, width);
          soft[i].top = tops[i];
        }
        soften(scores + i * lds, padded, soft[i]);
      }
      const uint32_t* values = packed_value_words(h) + j / 2 * kPanelColumns;
      for (int64_t d = 0; d < width; d += kPanelColumns, values += key_steps(h) * kPanelColumns)
        multiply_steps(reinterpret_cast<const uint32_t*>(scores), lds, rows, values, padded / 2,
                       acc + d, lda, j > 0);
    }
    for (int64_t i = 0; i < rows; ++i) {
      const V sum[1] = {soft[i].sum};
      const V inverse = set1(1.0f / reduce_add(sum));
      float* out = h.out + (row + i) * h.ldo;
      for (int64_t d = 0; d < h.head_dim; d += 16) {
        const V v = load(acc + i * lda + d) * inverse;
        if (h.stream)
          _mm512_stream_ps(out + d, v);
        else
          store_n(out + d, v, lanes_of(h.head_dim - d));
      }
    }
  }
  if (h.stream) _mm_sfence();
#ifdef TANDEM_ISA_AMX
  release_tiles();
#endif
}
