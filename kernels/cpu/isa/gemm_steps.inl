// Steps of the matrix product (gemm.inl): the products of a few k, by the type of the weight and by
// what the level can.

typedef int32_t Ints __attribute__((vector_size(sizeof(V))));

// What `finish` corrects in the integer sums.
enum class Offsets { kNone, kOfColumns, kOfRows };

// A step of k: kWords words of a row of x, 64 words of a panel.
struct StepF32 {
  typedef float Word;
  static constexpr int kWords = 1;
  static constexpr bool kIntegers = false;
  static constexpr Offsets kOffsets = Offsets::kNone;
  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void multiply(V (&acc)[kRows * kVectors], const Word* x,
                                              int64_t ldx, const float* w) {
    V wv[kVectors];
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) wv[j] = load(w + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V xv = set1(x[i * ldx]);
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j)
        acc[i * kVectors + j] = fma(xv, wv[j], acc[i * kVectors + j]);
    }
  }
};

#ifdef TANDEM_ISA_BF16
// Two bf16 products in one instruction; a word of x is a pair.
struct StepBf16 {
  typedef uint32_t Word;
  static constexpr int kWords = 1;
  static constexpr bool kIntegers = false;
  static constexpr Offsets kOffsets = Offsets::kNone;
  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void multiply(V (&acc)[kRows * kVectors], const Word* x,
                                              int64_t ldx, const float* w) {
    __m512i wv[kVectors];
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) wv[j] = _mm512_loadu_si512(w + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const __m512i xv = _mm512_set1_epi32(static_cast<int>(x[i * ldx]));
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j)
        acc[i * kVectors + j] =
            _mm512_dpbf16_ps(acc[i * kVectors + j], (__m512bh)xv, (__m512bh)wv[j]);
    }
  }
};
#endif

// A word of x that was stored as the bits of a float, of two int16 or bf16, or of four int8.
typedef float StoredBits __attribute__((may_alias));

#if defined(TANDEM_ISA_SDOT) || defined(TANDEM_ISA_I16)
// All products of a word in one instruction, both factors as they are stored.
template <class Dot>
struct StepOfWords {
  typedef StoredBits Word;
  static constexpr int kWords = 1;
  static constexpr bool kIntegers = Dot::kIntegers;
  static constexpr Offsets kOffsets = Offsets::kNone;
  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void multiply(V (&acc)[kRows * kVectors], const Word* x,
                                              int64_t ldx, const float* w) {
    V wv[kVectors];
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) wv[j] = load(w + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V xv = set1(x[i * ldx]);
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j)
        acc[i * kVectors + j] = Dot::add_products(acc[i * kVectors + j], wv[j], xv);
    }
  }
};
#endif

// A step whose words of w are taken apart: first their low, then their high parts. A word of x for
// each.
template <class Parts>
struct StepInParts {
  typedef StoredBits Word;
  static constexpr int kWords = 2;
  static constexpr bool kIntegers = Parts::kIntegers;
  static constexpr Offsets kOffsets = Offsets::kNone;
  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void multiply(V (&acc)[kRows * kVectors], const Word* x,
                                              int64_t ldx, const float* w) {
    V wv[kVectors];
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) wv[j] = Parts::low(load(w + j * kLanes));
    add_products<kRows, kVectors>(acc, x, ldx, wv);
    asm("" : "+r"(w));  // load again: both parts would not fit the registers
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) wv[j] = Parts::high(load(w + j * kLanes));
    add_products<kRows, kVectors>(acc, x + 1, ldx, wv);
  }

 private:
  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void add_products(V (&acc)[kRows * kVectors], const Word* x,
                                                  int64_t ldx, const V (&wv)[kVectors]) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V xv = set1(x[i * ldx]);
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j)
        acc[i * kVectors + j] = Parts::add_product(xv, wv[j], acc[i * kVectors + j]);
    }
  }
};

#if defined(TANDEM_ISA_BFDOT)
struct DotBf16 {
  static constexpr bool kIntegers = false;
  [[gnu::always_inline]] static V add_products(V acc, V w, V x) {
    return add_bf16_products(acc, w, x);
  }
};
typedef StepOfWords<DotBf16> StepBf16;
#elif !defined(TANDEM_ISA_BF16)
// Two bf16 products with w widened, first the even, then the odd k; x is in (rounded) floats.
struct Bf16Parts {
  static constexpr bool kIntegers = false;
  [[gnu::always_inline]] static V low(V w) { return low_bf16(w); }
  [[gnu::always_inline]] static V high(V w) { return high_bf16(w); }
  [[gnu::always_inline]] static V add_product(V x, V w, V acc) { return fma(x, w, acc); }
};
typedef StepInParts<Bf16Parts> StepBf16;
#endif

#if defined(TANDEM_ISA_VNNI)
// Four products of int8 in one instruction. It takes x as uint8: x + 128, which the sums of the
// columns of w make up for in the end (wrapping around on the way changes nothing).
struct StepI8 {
  typedef uint32_t Word;
  static constexpr int kWords = 1;
  static constexpr bool kIntegers = true;
  static constexpr Offsets kOffsets = Offsets::kOfColumns;
  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void multiply(V (&acc)[kRows * kVectors], const Word* x,
                                              int64_t ldx, const float* w) {
    __m512i wv[kVectors];
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) wv[j] = _mm512_loadu_si512(w + j * kLanes);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const __m512i xv = _mm512_set1_epi32(static_cast<int>(x[i * ldx]));
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j)
        acc[i * kVectors + j] = _mm512_castsi512_ps(
            _mm512_dpbusd_epi32(_mm512_castps_si512(acc[i * kVectors + j]), xv, wv[j]));
    }
  }
};
#elif defined(TANDEM_ISA_SDOT)
struct DotI8 {
  static constexpr bool kIntegers = true;
  [[gnu::always_inline]] static V add_products(V acc, V w, V x) {
    return add_i8_products(acc, w, x);
  }
};
typedef StepOfWords<DotI8> StepI8;
#elif defined(TANDEM_ISA_I8_MAGNITUDES)
// Four products of int8 as |x| (w ^ s), where s is -1 if x < 0, else 0. As w ^ -1 is -w - 1, the
// row's sum of |x| over its x < 0 is added in the end. Pairs of products fit int16: 2 * 127 * 128.
struct StepI8 {
  typedef StoredBits Word;
  static constexpr int kWords = 2;  // |x|, then s: four bytes each
  static constexpr bool kIntegers = true;
  static constexpr Offsets kOffsets = Offsets::kOfRows;
  template <int kRows, int kVectors>
  [[gnu::always_inline]] static void multiply(V (&acc)[kRows * kVectors], const Word* x,
                                              int64_t ldx, const float* w) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V magnitudes = set1(x[i * ldx]);
      const Ints signs = (Ints)set1(x[i * ldx + 1]);
#pragma GCC unroll 16
      for (int j = 0; j < kVectors; ++j)
        acc[i * kVectors + j] = add_u8_i8_products(acc[i * kVectors + j], magnitudes,
                                                   (V)((Ints)load(w + j * kLanes) ^ signs));
    }
  }
};
#else
// Four products of int8, widened to int16: of k 0 and 2, then of 1 and 3. (Pairs of products in
// int16, as vpmaddubsw gives them, would overflow.)
struct I8Parts {
  static constexpr bool kIntegers = true;
  [[gnu::always_inline]] static V low(V w) { return low_i8(w); }
  [[gnu::always_inline]] static V high(V w) { return high_i8(w); }
  [[gnu::always_inline]] static V add_product(V x, V w, V acc) {
    return add_i16_products(x, w, acc);
  }
};
typedef StepInParts<I8Parts> StepI8;
#endif

#ifdef TANDEM_ISA_I16
// Two products of int16. Of attention alone: no weight is stored so.
struct DotI16 {
  static constexpr bool kIntegers = true;
  [[gnu::always_inline]] static V add_products(V acc, V w, V x) {
    return add_i16_products(x, w, acc);
  }
};
typedef StepOfWords<DotI16> StepI16;
#endif
