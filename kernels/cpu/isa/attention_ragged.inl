// Encoder attention of one head: the products are the micro-kernels of gemm.inl.

// Panels of keys, [ceil(keys / 64)][head_dim][64], then of values, [ceil(head_dim / 64)][keys][64]:
// the layout of a packed weight.
inline float* packed_values(const RaggedHead& h) {
  return h.packed + round_up(h.keys, kPanelColumns) * h.head_dim;
}

// A head's rows lie far apart: the hardware does not foresee them.
inline void prefetch_row(const float* p, int head_dim) {
  for (int d = 0; d < head_dim; d += 16) __builtin_prefetch(p + d);
}
constexpr int64_t kRowsAhead = 16;

// panel[d][j] = k[j][d], zero from `keys` to 64.
inline void pack_keys(const float* k, int64_t ldk, int64_t keys, int head_dim, float* panel) {
  int64_t j = 0;
  for (; j + 8 <= keys; j += 8) {
    for (int64_t i = j; i < j + 8; ++i) prefetch_row(k + (i + kRowsAhead) * ldk, head_dim);
    int d = 0;
    for (; d + 8 <= head_dim; d += 8)
      transpose8(k + j * ldk + d, ldk, panel + d * kPanelColumns + j, kPanelColumns);
    for (; d < head_dim; ++d)
      for (int64_t i = j; i < j + 8; ++i) panel[d * kPanelColumns + i] = k[i * ldk + d];
  }
  for (; j < kPanelColumns; ++j)
    for (int d = 0; d < head_dim; ++d)
      panel[d * kPanelColumns + j] = j < keys ? k[j * ldk + d] : 0.0f;
}

// to[j][d] = v[j][d] for `columns` of a panel, zero up to the next vector.
inline void pack_values(const float* v, int64_t ldv, int64_t keys, int columns, float* panel) {
  for (int64_t j = 0; j < keys; ++j) {
    const float* from = v + j * ldv;
    float* to = panel + j * kPanelColumns;
    prefetch_row(from + kRowsAhead * ldv, columns);
    int d = 0;
    for (; d + kLanes <= columns; d += kLanes) store(to + d, load(from + d));
    if (d < columns) store(to + d, load_n(from + d, columns - d)), d += kLanes;
    for (; d < kPanelColumns; d += kLanes) store(to + d, zero());
  }
}

inline int columns_from(int d0, int head_dim) {
  return head_dim - d0 < kPanelColumns ? head_dim - d0 : kPanelColumns;
}

inline void pack_panels(const float* k, int64_t ldk, int64_t keys, int head_dim, float* panels) {
  for (int64_t j = 0; j < keys; j += kPanelColumns)
    pack_keys(k + j * ldk, ldk, keys - j < kPanelColumns ? keys - j : kPanelColumns, head_dim,
              panels + j * head_dim);
}

inline void ragged_pack(const RaggedHead& h) {
  pack_panels(h.k, h.ldk, h.keys, h.head_dim, h.packed);
  float* values = packed_values(h);
  for (int d0 = 0; d0 < h.head_dim; d0 += kPanelColumns, values += h.keys * kPanelColumns)
    pack_values(h.v + d0, h.ldv, h.keys, columns_from(d0, h.head_dim), values);
}

inline GemmBlock plain_block(const float* x, int64_t ldx, int64_t rows, const float* w,
                             int64_t steps, int64_t columns, float* c, int64_t ldc) {
  GemmBlock b{};
  b.x = x;
  b.ldx = ldx;
  b.rows = rows;
  b.w = w;
  b.steps = steps;
  b.columns = columns < kPanelColumns ? static_cast<int>(columns) : kPanelColumns;
  b.c = c;
  b.ldc = ldc;
  return b;
}

constexpr int64_t kKeysPerBlock = 128;  // of values, so that they stay in the first cache

// q[i] = scale * query[row + i]
inline void scale_queries(const RaggedHead& h, int64_t row, int64_t rows, float* q) {
  for (int64_t i = 0; i < rows; ++i) {
    prefetch_row(h.q + (row + kRaggedRows + i) * h.ldq, h.head_dim);
    for (int d = 0; d < h.head_dim; ++d)
      q[i * h.head_dim + d] = h.q[(row + i) * h.ldq + d] * h.scale;
  }
}

// tile (+)= p values, for `columns` of a panel.
inline void add_value_blocks(const float* p, int64_t ldp, int64_t rows, const float* values,
                             int64_t keys, int columns, bool accumulate, float* tile) {
  for (int64_t j = 0; j < keys; j += kKeysPerBlock) {
    const int64_t steps = keys - j < kKeysPerBlock ? keys - j : kKeysPerBlock;
    GemmBlock b = plain_block(p + j, ldp, rows, values + j * kPanelColumns, steps, columns, tile,
                              kPanelColumns);
    b.accumulate = accumulate || j > 0;
    gemm<StepF32>(b);
  }
}

// out = tile * inverse, for `columns` from d0 on.
inline void store_tile(const RaggedHead& h, int64_t row, int64_t rows, int d0, int columns,
                       const float* tile, const float* inverse) {
  for (int64_t i = 0; i < rows; ++i)
    for (int d = 0; d < columns; ++d)
      h.out[(row + i) * h.ldo + d0 + d] = tile[i * kPanelColumns + d] * inverse[i];
}

inline void add_row(float* x, const float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) x[i] += y[i];
}

inline void ragged_attend(const RaggedHead& h) {
  const int64_t lds = round_up(h.keys, kPanelColumns) + kLanes16;
  float* q = h.scratch;                                      // [kRaggedRows][head_dim]
  float* tile = q + round_up(kRaggedRows * h.head_dim, 16);  // [kRaggedRows][64]
  float* scores = tile + kRaggedRows * kPanelColumns;        // [kRaggedRows][lds]
  float inverse[kRaggedRows];
  for (int64_t row = 0; row < h.queries; row += kRaggedRows) {
    const int64_t rows = h.queries - row < kRaggedRows ? h.queries - row : kRaggedRows;
    scale_queries(h, row, rows, q);
    for (int64_t j = 0; j < h.keys; j += kPanelColumns)
      gemm<StepF32>(plain_block(q, h.head_dim, rows, h.packed + j * h.head_dim, h.head_dim,
                                h.keys - j, scores + j, lds));
    if (h.soft_cap > 0)
      for (int64_t i = 0; i < rows; ++i) soft_cap(h.soft_cap, scores + i * lds, h.keys);
    if (h.bias.values != nullptr)
      for (int64_t i = 0; i < rows; ++i)
        add_bias(scores + i * lds, h.keys, h.bias.values, h.bias.last,
                 h.bias.zero - (h.position + row + i));
    if (h.table != nullptr)
      for (int64_t i = 0; i < rows; ++i)
        add_row(scores + i * lds, h.table + (row + i) * h.ld_table, h.keys);
    for (int64_t i = 0; i < rows; ++i) inverse[i] = 1.0f / softmax_row(scores + i * lds, h.keys);
    const float* values = packed_values(h);
    for (int d0 = 0; d0 < h.head_dim; d0 += kPanelColumns, values += h.keys * kPanelColumns) {
      const int columns = columns_from(d0, h.head_dim);
      add_value_blocks(scores, lds, rows, values, h.keys, columns, false, tile);
      store_tile(h, row, rows, d0, columns, tile, inverse);
    }
  }
}
