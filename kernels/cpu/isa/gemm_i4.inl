// Products over a weight in int4 (kernels/cpu/packed_weight.h): factor * q of a weight is an int8,
// and sums of products of int8 are exact integers. So all of what is below has the bits of gemm_i8
// over the expanded weight.
//
// Few rows read the four bits as they lie. A group's sum is of (q + 8) x, in bytes without and with
// a sign, from -8 times the sum of x on: at most 32 * 8 * 127, which fits an int16 with its sign.
// Times the group's factor it is added to the element. Many rows take gemm_i8 over slices of panels
// that were expanded (linear_i4.cc).

typedef uint8_t Bytes __attribute__((vector_size(sizeof(V))));
typedef uint16_t Words16 __attribute__((vector_size(sizeof(V))));
typedef int32_t Words32 __attribute__((vector_size(sizeof(V))));

inline V low_nibbles(V w) { return (V)((Words16)w & 0x0f0f); }
inline V high_nibbles(V w) { return (V)(((Words16)w >> 4) & 0x0f0f); }

// Lanes hold sums in int32, or in two int16 that are added up in the end.
#if defined(TANDEM_ISA_VNNI)
inline V add_group_products(V acc, V w, V x) {
  return _mm512_castsi512_ps(_mm512_dpbusd_epi32(_mm512_castps_si512(acc), _mm512_castps_si512(w),
                                                 _mm512_castps_si512(x)));
}
inline Words32 group_sum(V acc) { return (Words32)acc; }
#elif defined(TANDEM_ISA_SDOT)
inline V add_group_products(V acc, V w, V x) { return add_i8_products(acc, w, x); }
inline Words32 group_sum(V acc) { return (Words32)acc; }
#else
inline V add_group_products(V acc, V w, V x) { return add_u4_i8_products(acc, w, x); }
inline Words32 group_sum(V acc) {
  return (Words32)add_i16_products(acc, (V)(Words16{} + 1), zero());
}
#endif

// A row of x: for each group a word from which its sums start, then 32 int8.
inline void to_i4_groups(const uint32_t* i8_steps, int64_t k, uint32_t* out) {
  const int64_t steps = (k + 3) / 4;
  for (int64_t step = 0; step < steps; step += kI4GroupSteps, out += kI4GroupWords) {
    const int64_t n = steps - step < kI4GroupSteps ? steps - step : kI4GroupSteps;
    int8_t q[kI4GroupInputs] = {};
#if defined(TANDEM_ISA_VNNI) || defined(TANDEM_ISA_SDOT)
    uint32_t words[kI4GroupSteps];
    for (int i = 0; i < kI4GroupSteps; ++i)
      words[i] = i < n ? i8_steps[step + i] ^ kQuantisedZero : 0;
    __builtin_memcpy(q, words, sizeof words);
#elif defined(TANDEM_ISA_I8_MAGNITUDES)
    int8_t parts[8 * kI4GroupSteps] = {};  // of each step four |x|, then four -1 or 0
    __builtin_memcpy(parts, i8_steps + 2 * step, static_cast<size_t>(n) * 8);
    for (int i = 0; i < kI4GroupInputs; ++i) {
      const int at = i / 4 * 8 + i % 4, sign = parts[at + 4];
      q[i] = static_cast<int8_t>((parts[at] ^ sign) - sign);
    }
#else
    int16_t pairs[4 * kI4GroupSteps] = {};  // of k 0 and 2, and 1 and 3, of each step
    __builtin_memcpy(pairs, i8_steps + 2 * step, static_cast<size_t>(n) * 8);
    for (int i = 0; i < kI4GroupInputs; ++i)
      q[i] = static_cast<int8_t>(pairs[i / 4 * 4 + i % 4 / 2 + i % 2 * 2]);
#endif
    int low = 0, high = 0;  // of the pairs of bytes of each word
    for (int i = 0; i < kI4GroupInputs; i += 4) {
      low += q[i] + q[i + 1];
      high += q[i + 2] + q[i + 3];
    }
#if defined(TANDEM_ISA_VNNI) || defined(TANDEM_ISA_SDOT)
    out[0] = static_cast<uint32_t>(-8 * (low + high));
#else
    out[0] = (static_cast<uint32_t>(-8 * low) & 0xffffu) | static_cast<uint32_t>(-8 * high) << 16;
#endif
    __builtin_memcpy(out + 1, q, sizeof q);
  }
}

struct TileI4 {
  const StoredBits* x;
  int64_t ldx;
  const float* w;
  const char* factors;  // of the first group
  int64_t groups;
  float* c;
  int64_t ldc;
  const char* prefetch;  // advances with w
};

template <int kRows, int kVectors>
[[gnu::always_inline]] inline void add_rows(V (&acc)[kRows * kVectors], const StoredBits* x,
                                            int64_t ldx, const V (&wv)[kVectors]) {
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i) {
    const V xv = set1(x[i * ldx]);
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j)
      acc[i * kVectors + j] = add_group_products(acc[i * kVectors + j], wv[j], xv);
  }
}

template <int kRows, int kVectors>
[[gnu::noinline]] void tile_i4(const TileI4& t) {
  constexpr int64_t kGroupWords = kI4GroupBytes / 4;
  const StoredBits* x = t.x;
  const float* w = t.w;
  const char *factors = t.factors, *ahead = t.prefetch;
  float* const sums = t.c;
  const int64_t ldx = t.ldx, ldc = t.ldc;
  for (int i = 0; i < kRows; ++i)
    for (int j = 0; j < kVectors; ++j) store(sums + i * ldc + j * kLanes, zero());
  for (int64_t g = t.groups; g > 0; --g) {
    V acc[kRows * kVectors];
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j) acc[i * kVectors + j] = set1(x[i * ldx]);
    const float* step = w;
#pragma GCC unroll 4
    for (int s = 1; s < kI4GroupWords; s += 2, step += kPanelColumns) {
      V wv[kVectors];
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j) wv[j] = low_nibbles(load(step + j * kLanes));
      add_rows<kRows, kVectors>(acc, x + s, ldx, wv);
      asm("" : "+r"(step));  // load again: both halves would not fit the registers
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j) wv[j] = high_nibbles(load(step + j * kLanes));
      add_rows<kRows, kVectors>(acc, x + s + 1, ldx, wv);
#pragma GCC unroll 4
      for (int j = 0; j < 4; ++j) __builtin_prefetch(ahead + 64 * j, 0, 3);
      ahead += kPanelColumns * 4;
    }
    __builtin_prefetch(ahead, 0, 3);
    ahead += kPanelColumns;
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) {
      const Words32 factor =
          (Words32)load_i8(reinterpret_cast<const int8_t*>(factors) + j * kLanes);
#pragma GCC unroll 16
      for (int i = 0; i < kRows; ++i) {
        float* c = sums + i * ldc + j * kLanes;
        store(c, (V)((Words32)load(c) + group_sum(acc[i * kVectors + j]) * factor));
      }
    }
    x += kI4GroupWords;
    w += kGroupWords;
    factors += kI4GroupBytes;
  }
}

typedef void (*TileFunctionI4)(const TileI4&);
constexpr TileFunctionI4 kTilesI4[kMaxTileRows] = {
    tile_i4<1, tile_columns(1) / kLanes>, tile_i4<2, tile_columns(2) / kLanes>,
    tile_i4<3, tile_columns(3) / kLanes>, tile_i4<4, tile_columns(4) / kLanes>,
    tile_i4<5, tile_columns(5) / kLanes>, tile_i4<6, tile_columns(6) / kLanes>};

// Of finish_rows().
struct SumsI4 {
  static constexpr bool kIntegers = true;
  static constexpr Offsets kOffsets = Offsets::kNone;
};

inline void gemm_i4(const GemmBlock& b) {
  const int64_t passes = (b.rows + kMaxTileRows - 1) / kMaxTileRows;
  const int64_t small = b.rows / passes, larger = b.rows % passes;  // passes of small + 1 rows
  const StoredBits* x = static_cast<const StoredBits*>(b.x);
  for (int64_t pass = 0, row = 0; pass < passes; ++pass) {
    const int rows = static_cast<int>(pass < larger ? small + 1 : small);
    const int width = tile_columns(rows);
    for (int column = 0; column < b.columns; column += width) {
      const char* w = static_cast<const char*>(b.w) + column * 4;
      const char* factors = static_cast<const char*>(b.w) + kI4GroupBytes - kPanelColumns + column;
      const bool first = pass == 0 && column == 0;
      kTilesI4[rows - 1]({x + row * b.ldx, b.ldx, reinterpret_cast<const float*>(w), factors,
                          b.steps, b.c + row * b.ldc + column, b.ldc,
                          first ? w + kStreamAhead : w});
    }
    finish_rows<SumsI4>(b, row, rows);
    row += rows;
  }
}

// factor * (n - 8) of the bytes n < 16; the odd ones are multiplied where they lie. `factor`: in
// both halves of each lane; `offset`: 8 factor in each byte.
inline V expand_nibbles(V n, Words16 factor, Bytes offset) {
  const Words16 even = (Words16)n & 0xff, odd = (Words16)n >> 8;
  const Words16 products = (even * factor & 0xff) | (odd * factor << 8);
  return (V)((Bytes)products - offset);
}

inline void expand_i4(const void* groups, int64_t count, void* out) {
  const char* from = static_cast<const char*>(groups);
  float* to = static_cast<float*>(out);
  for (int64_t g = 0; g < count; ++g) {
    const int8_t* factors = reinterpret_cast<const int8_t*>(from + kI4GroupBytes - kPanelColumns);
    for (int column = 0; column < kPanelColumns; column += kLanes) {
      const Words32 f = (Words32)load_i8(factors + column);
      const Words16 factor = (Words16)((f & 0xffff) | f << 16);
      const Words16 eight = factor << 3;
      const Bytes offset = (Bytes)((eight & 0xff) | eight << 8);
      const float* w = reinterpret_cast<const float*>(from) + column;
      for (int s = 0; s < kI4GroupSteps / 2; ++s) {
        const V v = load(w + s * kPanelColumns);
        store(to + 2 * s * kPanelColumns + column, expand_nibbles(low_nibbles(v), factor, offset));
        store(to + (2 * s + 1) * kPanelColumns + column,
              expand_nibbles(high_nibbles(v), factor, offset));
      }
    }
    from += kI4GroupBytes;
    to += kI4GroupSteps * kPanelColumns;
  }
}
