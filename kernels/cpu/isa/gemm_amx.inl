// The matrix product of bf16 and int8 on AMX tiles, over the same panels: 16 steps by 16 columns of
// a panel are a tile of w as they lie, 16 rows by 16 steps of x one of x.
//
// In bf16 an output element is, for each 16 steps from the first, the sum of two chains of fused
// products in ascending order, one over the even and one over the odd k, which is added to the
// element so far; the last 16 steps may be fewer. Numbers below the normal ones count as zero. No
// bit depends on the number of rows or on the place in a tile, but the order is not the one of
// vdpbf16ps: all numbers of rows take the tiles. In int8 the sums are exact, so those of vpdpbusd
// have the same bits.

constexpr int kTileSteps = 16;
constexpr int kTileRows = 16;

// Measured on Granite Rapids: a slice of a panel and of the rows of a pass share the first cache,
// the rows of a block of x stay in the second.
constexpr GemmBlocking kTileBlockingBf16 = {2 * kTileRows, 256, 128};
constexpr GemmBlocking kTileBlockingI8 = {2 * kTileRows, 256, 192};

// Tiles 0 to 3 are of c, 4 and 5 of x, 6 and 7 of w.
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

// What this thread's tiles are configured for; all 0: they are not in use.
struct TileShape {
  int low, high;  // rows of tile 4, and of tile 5 or 0
  int steps;
};
thread_local TileShape configured;

inline void configure(const TileShape& s) {
  if (s.low == configured.low && s.high == configured.high && s.steps == configured.steps) return;
  TileConfig c = {};
  c.palette = 1;
  for (int i = 0; i < 4; ++i) {
    c.row_bytes[i] = 64;
    c.rows[i] = static_cast<uint8_t>(s.high != 0 && i >= 2 ? s.high : s.low);
  }
  for (int i = 4; i < 6; ++i) {
    c.rows[i] = static_cast<uint8_t>(i == 4 ? s.low : s.high);
    c.row_bytes[i] = static_cast<uint16_t>(c.rows[i] != 0 ? 4 * s.steps : 0);
  }
  for (int i = 6; i < 8; ++i) {
    c.row_bytes[i] = 64;
    c.rows[i] = static_cast<uint8_t>(s.steps);
  }
  asm volatile("" : : "r"(&c) : "memory");  // all of it is written: the intrinsic may not say so
  _tile_loadconfig(&c);
  configured = s;
}

// The thread's tiles cost nothing until they are configured again.
inline void release_tiles() {
  if (configured.steps == 0) return;
  _tile_release();
  configured = {};
}

// Of 16 rows by 64 columns, or of 32 by 32.
struct TilePass {
  const char* x;  // 64 bytes of a row are a tile's
  int64_t ldx;    // bytes
  const char* w;
  char* c;
  int64_t ldc;     // bytes
  int64_t blocks;  // of the steps of a tile
  bool accumulate;
  const char* prefetch;  // advances by the pass's lines each block
};

// c += x w of one pair of tiles.
#define TANDEM_MULTIPLY_TILES(c, x, w) \
  if constexpr (Step::kIntegers) {     \
    _tile_dpbusd(c, x, w);             \
  } else {                             \
    _tile_dpbf16ps(c, x, w);           \
  }

constexpr int64_t kTileBytes = kTileSteps * kPanelColumns * 4;  // from block to block of w

// With few rows the first pass over a panel runs ahead in its stream, into the first cache. With
// more, the passes over a block share the lines of the next one, which the second cache gets.
constexpr int kTileLines = kTileSteps * 4;  // of w
template <int kLines>
[[gnu::always_inline]] inline void prefetch_lines(const char* p) {
#pragma GCC unroll 64
  for (int line = 0; line < kLines; ++line)
    __builtin_prefetch(p + 64 * line, 0, kLines == kTileLines ? 3 : 2);
}

template <class Step, int kLines>
[[gnu::noinline]] void tiles_16x64(const TilePass& p) {
  constexpr int64_t ldw = kPanelColumns * 4;
  const char *x = p.x, *w = p.w, *ahead = p.prefetch;
  asm volatile("" : : : "memory");  // what tiles load has been stored
  if (p.accumulate) {
    _tile_loadd(0, p.c, p.ldc);
    _tile_loadd(1, p.c + 64, p.ldc);
    _tile_loadd(2, p.c + 128, p.ldc);
    _tile_loadd(3, p.c + 192, p.ldc);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t i = p.blocks; i > 0; --i) {
    _tile_loadd(4, x, p.ldx);
    _tile_loadd(6, w, ldw);
    TANDEM_MULTIPLY_TILES(0, 4, 6);
    _tile_loadd(7, w + 64, ldw);
    TANDEM_MULTIPLY_TILES(1, 4, 7);
    _tile_loadd(6, w + 128, ldw);
    TANDEM_MULTIPLY_TILES(2, 4, 6);
    _tile_loadd(7, w + 192, ldw);
    TANDEM_MULTIPLY_TILES(3, 4, 7);
    prefetch_lines<kLines>(ahead);
    ahead += 64 * kLines;
    x += 64;
    w += kTileBytes;
  }
  _tile_stored(0, p.c, p.ldc);
  _tile_stored(1, p.c + 64, p.ldc);
  _tile_stored(2, p.c + 128, p.ldc);
  _tile_stored(3, p.c + 192, p.ldc);
}

template <class Step, int kLines>
[[gnu::noinline]] void tiles_32x32(const TilePass& p) {
  constexpr int64_t ldw = kPanelColumns * 4;
  const char *x = p.x, *w = p.w, *ahead = p.prefetch;
  const char* high_x = x + kTileRows * p.ldx;
  char* high_c = p.c + kTileRows * p.ldc;
  asm volatile("" : : : "memory");  // what tiles load has been stored
  if (p.accumulate) {
    _tile_loadd(0, p.c, p.ldc);
    _tile_loadd(1, p.c + 64, p.ldc);
    _tile_loadd(2, high_c, p.ldc);
    _tile_loadd(3, high_c + 64, p.ldc);
  } else {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }
  for (int64_t i = p.blocks; i > 0; --i) {
    _tile_loadd(6, w, ldw);
    _tile_loadd(4, x, p.ldx);
    TANDEM_MULTIPLY_TILES(0, 4, 6);
    _tile_loadd(5, high_x, p.ldx);
    TANDEM_MULTIPLY_TILES(2, 5, 6);
    _tile_loadd(7, w + 64, ldw);
    TANDEM_MULTIPLY_TILES(1, 4, 7);
    TANDEM_MULTIPLY_TILES(3, 5, 7);
    prefetch_lines<kLines>(ahead);
    ahead += 64 * kLines;
    x += 64;
    high_x += 64;
    w += kTileBytes;
  }
  _tile_stored(0, p.c, p.ldc);
  _tile_stored(1, p.c + 64, p.ldc);
  _tile_stored(2, high_c, p.ldc);
  _tile_stored(3, high_c + 64, p.ldc);
}
#undef TANDEM_MULTIPLY_TILES

// Where the passes over a block prefetch.
struct TilePrefetch {
  const char* from;  // nullptr: nowhere
  int lines;         // of a pass, for each block of tiles
};

template <class Step>
void run_pass(const TilePass& p, bool wide, int lines) {
  typedef void (*Pass)(const TilePass&);
  static constexpr Pass kWide[] = {tiles_32x32<Step, 0>, tiles_32x32<Step, 8>,
                                   tiles_32x32<Step, 16>, tiles_32x32<Step, kTileLines>};
  static constexpr Pass kLow[] = {tiles_16x64<Step, 0>, tiles_16x64<Step, 8>, tiles_16x64<Step, 16>,
                                  tiles_16x64<Step, kTileLines>};
  const int of_lines = lines == 0 ? 0 : lines == 8 ? 1 : lines == 16 ? 2 : 3;
  (wide ? kWide : kLow)[of_lines](p);
}

// Rows [row, row + low + high): `blocks` of `shape.steps` steps from `first` on.
template <class Step>
void run_tiles(const GemmBlock& b, int64_t row, const TileShape& shape, int64_t first,
               int64_t blocks, TilePrefetch ahead) {
  configure(shape);
  TilePass p{static_cast<const char*>(b.x) + (row * b.ldx + first) * 4,
             b.ldx * 4,
             static_cast<const char*>(b.w) + first * kPanelColumns * 4,
             reinterpret_cast<char*>(b.c + row * b.ldc),
             b.ldc * 4,
             blocks,
             b.accumulate || first > 0,
             ahead.from};
  const bool wide = shape.high != 0;
  run_pass<Step>(p, wide, ahead.lines);
  if (!wide) return;
  p.w += 128;
  p.c += 128;
  p.prefetch += blocks * ahead.lines * 64;
  run_pass<Step>(p, wide, ahead.lines == kTileLines ? 0 : ahead.lines);
}

// Of the pass over the rows from `row` on.
inline TilePrefetch plan_tile_prefetch(const GemmBlock& b, int64_t row) {
  if (b.rows <= 2 * kTileRows)
    return {static_cast<const char*>(b.w) + kStreamAhead, row == 0 ? kTileLines : 0};
  const int lines = b.rows > 4 * kTileRows ? 8 : 16;  // two passes for each 32 rows
  const int64_t begin = row / kTileRows * lines, all = b.steps / kTileSteps * 64;
  if (b.next == nullptr || begin >= kTileLines) return {nullptr, 0};
  return {static_cast<const char*>(b.next) + begin * all, lines};
}

template <class Step>
void gemm_amx(const GemmBlock& b) {
  static_assert(Step::kWords == 1);
  const int64_t blocks = b.steps / kTileSteps;
  const int rest = static_cast<int>(b.steps % kTileSteps);
  for (int64_t row = 0; row < b.rows; row += 2 * kTileRows) {
    const int rows = static_cast<int>(b.rows - row < 2 * kTileRows ? b.rows - row : 2 * kTileRows);
    const int low = rows < kTileRows ? rows : kTileRows, high = rows - low;
    const TilePrefetch ahead = plan_tile_prefetch(b, row);
    if (blocks > 0 || rest == 0) run_tiles<Step>(b, row, {low, high, kTileSteps}, 0, blocks, ahead);
    if (rest != 0) run_tiles<Step>(b, row, {low, high, rest}, blocks * kTileSteps, 1, {nullptr, 0});
    if (b.finish)
      for (int i = 0; i < rows; ++i) finish_row<Step>(b, row + i);
  }
  if (b.next == nullptr) release_tiles();
}

// A row or two are faster without tiles.
constexpr int64_t kRowsWithoutTiles = 2;

void gemm_amx_i8(const GemmBlock& b) {
  (b.rows <= kRowsWithoutTiles ? gemm<StepI8> : gemm_amx<StepI8>)(b);
}
