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
constexpr GemmBlocking tile_blocking(int64_t words) {
  return {2 * kTileRows, 256, 2 * kTileRows, 200 << 10, {words, true}, {words, true}};
}
constexpr GemmBlocking kTileBlockingBf16 = tile_blocking(128);
constexpr GemmBlocking kTileBlockingI8 = tile_blocking(192);

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

// The end of an earlier block, in shares, beside as many blocks of tiles: vectors have little to do
// while tiles are multiplied.
struct Beside {
  const GemmBlock* b;
  void (*finish)(const GemmBlock& b, int64_t row, int64_t rows);
  int64_t blocks;    // of tiles
  int64_t row = 0;   // that is next
  int64_t rest = 0;  // of rows * blocks gone by, over blocks

  void go_on() {
    rest += b->rows;
    int64_t rows = 0;
    for (; rest >= blocks; rest -= blocks) ++rows;
    if (rows > 0) finish(*b, row, rows);
    row += rows;
  }
};

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
  Beside* beside;        // goes on with each block; nullptr: there is none
};

// c += x w of one pair of tiles.
#define TANDEM_MULTIPLY_TILES(c, x, w) \
  if constexpr (Step::kIntegers) {     \
    _tile_dpbusd(c, x, w);             \
  } else {                             \
    _tile_dpbf16ps(c, x, w);           \
  }

constexpr int64_t kTileBytes = kTileSteps * kPanelColumns * 4;  // from block to block of w

// What no other rows read is prefetched ahead in its stream, into the first cache; what comes
// behind the block, into the second.
constexpr int kTileLines = kTileSteps * 4;  // of a block of tiles of w
constexpr int kNextLines = 32;              // at most
template <int kLines>
[[gnu::always_inline]] inline void prefetch_lines(const char* p) {
#pragma GCC unroll 64
  for (int line = 0; line < kLines; ++line) __builtin_prefetch(p + 64 * line, 0, 2);
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
    if (p.beside != nullptr) p.beside->go_on();
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
    if (p.beside != nullptr) p.beside->go_on();
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

struct TilePrefetch {
  const char* from = nullptr;
  int lines = 0;  // for each block of tiles
};
// What goes on beside the passes over some rows.
struct TileCompany {
  TilePrefetch first, second;  // of the first pass, and of the second one over the same rows
  Beside* beside = nullptr;
};

template <class Step>
void run_pass(const TilePass& p, bool wide, int lines) {
  typedef void (*Pass)(const TilePass&);
  static constexpr Pass kWide[] = {tiles_32x32<Step, 0>,          tiles_32x32<Step, 4>,
                                   tiles_32x32<Step, 8>,          tiles_32x32<Step, 16>,
                                   tiles_32x32<Step, kNextLines>, tiles_32x32<Step, kTileLines>};
  static constexpr Pass kLow[] = {tiles_16x64<Step, 0>,          tiles_16x64<Step, 4>,
                                  tiles_16x64<Step, 8>,          tiles_16x64<Step, 16>,
                                  tiles_16x64<Step, kNextLines>, tiles_16x64<Step, kTileLines>};
  int i = 0;
  for (int n = 2; n < lines; n *= 2) ++i;
  (wide ? kWide : kLow)[i](p);
}

// Rows [row, row + low + high): `blocks` of `shape.steps` steps from `first` on.
template <class Step>
void run_tiles(const GemmBlock& b, int64_t row, const TileShape& shape, int64_t first,
               int64_t blocks, TileCompany company) {
  configure(shape);
  TilePass p{static_cast<const char*>(b.x) + (row * b.ldx + first) * 4,
             b.ldx * 4,
             static_cast<const char*>(b.w) + first * kPanelColumns * 4,
             reinterpret_cast<char*>(b.c + row * b.ldc),
             b.ldc * 4,
             blocks,
             b.accumulate || first > 0,
             company.first.from,
             company.beside};
  const bool wide = shape.high != 0;
  run_pass<Step>(p, wide, company.first.lines);
  if (!wide) return;
  p.w += 128;
  p.c += 128;
  p.prefetch = company.second.from;
  run_pass<Step>(p, wide, company.second.lines);
}

// Shares of what a block prefetches for each block of tiles of its passes.
class NextLines {
 public:
  // blocks: of tiles of all passes
  NextLines(const GemmBlock& b, int64_t blocks)
      : at_(static_cast<const char*>(b.next)), end_(at_ + b.next_lines * 64) {
    while (lines_ < kNextLines && lines_ * blocks < b.next_lines) lines_ *= 2;
  }
  TilePrefetch take(int64_t blocks) {
    if (at_ >= end_) return {};
    const char* from = at_;
    at_ += blocks * lines_ * 64;
    return {from, lines_};
  }

 private:
  const char *at_, *end_;
  int lines_ = 4;
};

template <class Step>
bool gemm_amx(const GemmBlock& b) {
  static_assert(Step::kWords == 1);
  const int64_t blocks = b.steps / kTileSteps;
  const int rest = static_cast<int>(b.steps % kTileSteps);
  int64_t all = 0;  // blocks of all passes
  for (int64_t row = 0; row < b.rows; row += 2 * kTileRows)
    all += blocks * (b.rows - row > kTileRows ? 2 : 1);
  NextLines next(b, b.w_once ? blocks : all);
  Beside beside{b.beside, finish_rows<Step>, all};
  for (int64_t row = 0; row < b.rows; row += 2 * kTileRows) {
    const int rows = static_cast<int>(b.rows - row < 2 * kTileRows ? b.rows - row : 2 * kTileRows);
    const int low = rows < kTileRows ? rows : kTileRows, high = rows - low;
    TileCompany company;
    if (b.w_once)
      company.first = {static_cast<const char*>(b.w) + kStreamAhead, kTileLines};
    else
      company.first = next.take(blocks);
    if (high > 0) company.second = next.take(blocks);
    if (b.beside != nullptr) company.beside = &beside;
    if (blocks > 0 || rest == 0)
      run_tiles<Step>(b, row, {low, high, kTileSteps}, 0, blocks, company);
    if (rest != 0) run_tiles<Step>(b, row, {low, high, rest}, blocks * kTileSteps, 1, {});
  }
  if (b.beside != nullptr) finish_rows<Step>(*b.beside, beside.row, b.beside->rows - beside.row);
  if (b.ends_task) release_tiles();
  return !b.finish;
}

template <class Step>
void finish_all(const GemmBlock& b) {
  finish_rows<Step>(b, 0, b.rows);
  if (b.stream) end_streams();
}

// A row or two are faster without tiles.
constexpr int64_t kRowsWithoutTiles = 2;

bool gemm_amx_i8(const GemmBlock& b) {
  if (b.rows > kRowsWithoutTiles) return gemm_amx<StepI8>(b);
  if (b.beside != nullptr) finish_all<StepI8>(*b.beside);
  gemm<StepI8>(b);
  if (b.ends_task) release_tiles();
  return true;
}
