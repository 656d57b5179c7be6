// The matrix product: micro-kernels of up to 6 rows by 16 to 64 columns over a panel of a packed
// weight.
//
// In f32 and bf16 an output element is one chain of fused products over k in ascending order,
// starting from zero, whatever the tile's shape; cutting k into blocks stores and reloads the
// accumulator and changes no bit. Latency is hidden by the number of columns and rows, never by
// splitting k.
//
// In int8 the accumulators are the bits of int32 sums, which are exact, and become floats at the
// end. Some levels compute with other factors than x and w; an offset makes up for it there.
//
// Micro-kernels must not be inlined, and loops over accumulators must be unrolled in full: g++ 12
// keeps the accumulators in memory otherwise.

// With 512-bit vectors and a first cache that has room for two slices of a panel, the one that the
// rows pass by and the next, they are there (measured on Zen 5, 48 KB); else in the second one
// (measured on Zen 4, 32 KB, where prefetches to the first cost a quarter at 8 to 16 rows; AVX2 has
// less work for each weight).
constexpr GemmSlices kInSecondCache = {256, false};
constexpr GemmSlices kSlices = kLanes == 16 ? GemmSlices{96, true} : kInSecondCache;
constexpr GemmBlocking kVectorBlocking = {kMaxTileRows, 96, 96, 0, kSlices, kInSecondCache};

struct Tile {
  const void* x;
  int64_t ldx;
  const void* w;
  int64_t steps;
  float* c;
  int64_t ldc;
  bool accumulate;
  const char* prefetch;  // advances by a panel row (256 bytes) each step
};

#include "kernels/cpu/isa/gemm_steps.inl"

template <class Step, int kRows, int kVectors, int kPrefetch, int kLocality>
[[gnu::noinline]] void tile(const Tile& t) {
  using Word = typename Step::Word;
  V acc[kRows * kVectors];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j)
      acc[i * kVectors + j] = t.accumulate ? load(t.c + i * t.ldc + j * kLanes) : zero();
  const Word* x = static_cast<const Word*>(t.x);
  const float* w = static_cast<const float*>(t.w);
  const char* ahead = t.prefetch;
  const int64_t ldx = t.ldx;
  for (int64_t s = t.steps; s > 0; --s) {
    Step::template multiply<kRows, kVectors>(acc, x, ldx, w);
    x += Step::kWords;
    w += kPanelColumns;
#pragma GCC unroll 16
    for (int j = 0; j < kPrefetch; ++j) __builtin_prefetch(ahead + 64 * j, 0, kLocality);
    ahead += kPanelColumns * 4;
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 16
    for (int j = 0; j < kVectors; ++j) store(t.c + i * t.ldc + j * kLanes, acc[i * kVectors + j]);
}

// Columns of a tile by its rows: as many as the registers hold, so that few rows have enough
// chains.
constexpr int tile_columns(int rows) {
  return kLanes == 16 ? 64 : kLanes == 8 ? (rows == 1 ? 64 : rows <= 3 ? 32 : 16) : 16;
}

typedef void (*TileFunction)(const Tile&);

// By rows - 1, by the lines prefetched in a step and by __builtin_prefetch's locality.
template <class Step, int kPrefetch, int kLocality>
struct TileTable {
  static constexpr TileFunction table[kMaxTileRows] = {
      tile<Step, 1, tile_columns(1) / kLanes, kPrefetch, kLocality>,
      tile<Step, 2, tile_columns(2) / kLanes, kPrefetch, kLocality>,
      tile<Step, 3, tile_columns(3) / kLanes, kPrefetch, kLocality>,
      tile<Step, 4, tile_columns(4) / kLanes, kPrefetch, kLocality>,
      tile<Step, 5, tile_columns(5) / kLanes, kPrefetch, kLocality>,
      tile<Step, 6, tile_columns(6) / kLanes, kPrefetch, kLocality>};
};
// For the last columns of a panel.
template <class Step>
struct NarrowTable {
  static constexpr TileFunction table[kMaxTileRows] = {
      tile<Step, 1, 16 / kLanes, 0, 0>, tile<Step, 2, 16 / kLanes, 0, 0>,
      tile<Step, 3, 16 / kLanes, 0, 0>, tile<Step, 4, 16 / kLanes, 0, 0>,
      tile<Step, 5, 16 / kLanes, 0, 0>, tile<Step, 6, 16 / kLanes, 0, 0>};
};

template <class Step>
TileFunction select_tile(int rows, int prefetch, bool to_first) {
  if constexpr (kLanes >= 8) {
    if (prefetch == 4) return TileTable<Step, 4, 3>::table[rows - 1];
  }
  if constexpr (kLanes == 16) {
    if (to_first && prefetch == 2) return TileTable<Step, 2, 3>::table[rows - 1];
    if (to_first && prefetch == 1) return TileTable<Step, 1, 3>::table[rows - 1];
  }
  if constexpr (kLanes >= 8) {
    if (prefetch == 2) return TileTable<Step, 2, 2>::table[rows - 1];
    if (prefetch == 1) return TileTable<Step, 1, 2>::table[rows - 1];
  }
  return TileTable<Step, 0, 0>::table[rows - 1];
}

// The lanes of the bias at column j, of those that matter.
inline V bias_at(const GemmBlock& b, int j) {
  const int rest = b.columns - j;
  return rest >= kLanes ? load(b.bias + j) : load_n(b.bias + j, rest);
}

inline V unchanged(V x) { return x; }

// Rows [row, row + rows) end: integer sums become floats, times the scales of their columns and of
// the row; then come the bias and the activation, and they go to where they are wanted. (All 64
// columns of c may be written.)
template <class Step, V (*F)(V)>
[[gnu::noinline]] void finish_with(const GemmBlock& b, int64_t row, int64_t rows) {
  for (int64_t i = row; i < row + rows; ++i) {
    float* c = b.c + i * b.ldc;
    float* out = b.out == nullptr ? c : b.out + i * b.ldo;
    const V scale = Step::kIntegers ? set1(b.row_scales[i]) : zero();
#pragma GCC unroll 4
    for (int j = 0; j < kPanelColumns; j += kLanes) {
      if (j >= b.columns) break;
      V v = load(c + j);
      if constexpr (Step::kIntegers) {
        if constexpr (Step::kOffsets == Offsets::kOfColumns)
          v = subtract_i32(v, load(b.column_offsets + j));
        if constexpr (Step::kOffsets == Offsets::kOfRows) v = (V)((Ints)v + b.row_offsets[i]);
        v = float_of_i32(v) * load(b.column_scales + j) * scale;
      }
      if (b.bias != nullptr) v = v + bias_at(b, j);
      v = F(v);
      if constexpr (kStreams) {
        if (b.stream && b.columns == kPanelColumns) {
          stream(out + j, v);
          continue;
        }
      }
      if (b.out == nullptr || b.columns - j >= kLanes) {
        store(out + j, v);
      } else {
        store_n(out + j, v, b.columns - j);
      }
    }
  }
}

template <class Step>
void finish_rows(const GemmBlock& b, int64_t row, int64_t rows) {
  const bool nothing = !Step::kIntegers && b.bias == nullptr && b.out == nullptr;
  if (nothing && b.activation == Activation::kNone) return;
  switch (b.activation) {
    case Activation::kNone: return finish_with<Step, unchanged>(b, row, rows);
    case Activation::kRelu: return finish_with<Step, relu>(b, row, rows);
    case Activation::kGelu: return finish_with<Step, gelu>(b, row, rows);
    case Activation::kGeluTanh: return finish_with<Step, gelu_tanh>(b, row, rows);
    case Activation::kQuickGelu: return finish_with<Step, quick_gelu>(b, row, rows);
    case Activation::kSilu: return finish_with<Step, silu>(b, row, rows);
    case Activation::kTanh: return finish_with<Step, tanh_of>(b, row, rows);
    case Activation::kSigmoid: return finish_with<Step, sigmoid>(b, row, rows);
    default: break;
  }
  // Those that are rare take a pass of their own.
  finish_with<Step, unchanged>(b, row, rows);
  for (int64_t i = row; i < row + rows; ++i)
    activate(b.activation, b.out == nullptr ? b.c + i * b.ldc : b.out + i * b.ldo, b.columns);
}

// Where the passes over a block prefetch: one pass alone runs ahead in its own stream; several
// share the lines of the next block, of as many steps, among the first of them.
struct PrefetchPlan {
  int passes;  // that prefetch
  int lines;   // per step of a pass
};
inline PrefetchPlan plan_prefetch(const GemmBlock& b, int64_t passes) {
  if (passes == 1) return {1, 4};
  if (b.next == nullptr) return {0, 0};
  return passes < 4 ? PrefetchPlan{2, 2} : PrefetchPlan{4, 1};
}

constexpr int64_t kStreamAhead = 4096;  // bytes

template <class Step>
bool gemm(const GemmBlock& b) {
  using Word = typename Step::Word;
  const int64_t groups = (b.rows + kMaxTileRows - 1) / kMaxTileRows;
  const int64_t small = b.rows / groups, larger = b.rows % groups;  // groups of small + 1 rows
  int64_t passes = 0;
  for (int64_t g = 0; g < groups; ++g) {
    const int width = tile_columns(static_cast<int>(g < larger ? small + 1 : small));
    passes += (b.columns + width - 1) / width;
  }
  const PrefetchPlan plan = plan_prefetch(b, passes);
  const Word* x = static_cast<const Word*>(b.x);
  int64_t pass = 0;
  for (int64_t g = 0, row = 0; g < groups; ++g) {
    const int rows = static_cast<int>(g < larger ? small + 1 : small);
    const int width = tile_columns(rows);
    Tile t{x + row * b.ldx, b.ldx, b.w, b.steps, b.c + row * b.ldc, b.ldc, b.accumulate, nullptr};
    for (int column = 0; column < b.columns; column += width) {
      const bool ahead = pass < plan.passes;
      t.w = static_cast<const float*>(b.w) + column;
      t.c = b.c + row * b.ldc + column;
      t.prefetch = passes == 1 ? static_cast<const char*>(b.w) + kStreamAhead
                   : ahead     ? static_cast<const char*>(b.next) + pass * plan.lines * 64
                               : nullptr;
      ++pass;
      const bool narrow = b.columns - column <= 16 && width > 16;
      (narrow ? NarrowTable<Step>::table[rows - 1]
              : select_tile<Step>(rows, ahead ? plan.lines : 0, b.next_to_first))(t);
    }
    if (b.finish) finish_rows<Step>(b, row, rows);
    row += rows;
  }
  if constexpr (kStreams) {
    if (b.stream && b.ends_task) end_streams();
  }
  return true;
}

#ifdef TANDEM_ISA_WIDENS_BF16
constexpr int64_t kRowsToWiden = 24;  // from which on it is faster
constexpr int64_t kWidenedSteps = 128;

// Many rows: words of w become floats once, not for each tile. The sums are the same chains of the
// same products, so no bit changes.
inline bool gemm_bf16(const GemmBlock& b) {
  if (b.rows < kRowsToWiden || b.steps == 0) return gemm<StepBf16>(b);
  alignas(64) static thread_local float widened[2 * kWidenedSteps * kPanelColumns];
  const float* w = static_cast<const float*>(b.w);
  for (int64_t first = 0; first < b.steps; first += kWidenedSteps) {
    const int64_t steps = b.steps - first < kWidenedSteps ? b.steps - first : kWidenedSteps;
    float* to = widened;
    for (int64_t s = first; s < first + steps; ++s, to += 2 * kPanelColumns)
      for (int j = 0; j < kPanelColumns; j += kLanes) {
        const V pairs = load(w + s * kPanelColumns + j);
        store(to + j, low_bf16(pairs));
        store(to + kPanelColumns + j, high_bf16(pairs));
      }
    const bool last = first + steps == b.steps;
    GemmBlock part = b;
    part.x = static_cast<const float*>(b.x) + first * StepBf16::kWords;
    part.w = widened;
    part.steps = 2 * steps;
    part.accumulate = b.accumulate || first > 0;
    part.finish = b.finish && last;
    part.ends_task = b.ends_task && last;
    if (!last) part.next = nullptr;
    gemm<StepF32>(part);
  }
  return true;
}
#else
constexpr auto gemm_bf16 = gemm<StepBf16>;
#endif
