// Attention of one head. Scores of a query lie in one row over all its keys, so that nothing depends on
// how keys are cut into pages or queries into chunks: a score is a fixed sum over the head dimension,
// the softmax's sum has 16 lanes by key, and an output element is one chain over the keys in order.

// p[j] = exp(p[j] - max) for n scores; returns the sum. p is readable and writable up to a multiple of
// 16, what lies beyond n becomes zero.
inline float softmax_row(float* p, int64_t n) {
  V best[kParts];
  for (int i = 0; i < kParts; ++i) best[i] = set1(-__builtin_inff());
  for (int64_t j = n; j % kLanes16 != 0; ++j) p[j] = -__builtin_inff();
  for (int64_t j = 0; j < n; j += kLanes16)
#pragma GCC unroll 16
    for (int i = 0; i < kParts; ++i) best[i] = max(best[i], load(p + j + i * kLanes));
  const V top = set1(reduce_max(best));
  V sum[kParts];
  for (int i = 0; i < kParts; ++i) sum[i] = zero();
  for (int64_t j = 0; j < n; j += kLanes16)
#pragma GCC unroll 16
    for (int i = 0; i < kParts; ++i) {
      const V e = exp_of(load(p + j + i * kLanes) - top);
      store(p + j + i * kLanes, e);
      sum[i] = sum[i] + e;
    }
  return reduce_add(sum);
}

inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// --- Ragged (encoder) ------------------------------------------------------------------------------

// Panels of keys, [ceil(keys / 64)][head_dim][64], then of values, [ceil(head_dim / 64)][keys][64]: the
// layout of a packed weight.
inline float* packed_values(const RaggedHead& h) {
  return h.packed + round_up(h.keys, kPanelColumns) * h.head_dim;
}

void ragged_pack(const RaggedHead& h) {
  for (int64_t j0 = 0; j0 < h.keys; j0 += kPanelColumns) {
    float* panel = h.packed + j0 * h.head_dim;
    for (int64_t j = 0; j < kPanelColumns; ++j) {
      const float* k = h.k + (j0 + j) * h.ldk;
      const bool inside = j0 + j < h.keys;
      for (int d = 0; d < h.head_dim; ++d) panel[d * kPanelColumns + j] = inside ? k[d] : 0.0f;
    }
  }
  float* values = packed_values(h);
  for (int d0 = 0; d0 < h.head_dim; d0 += kPanelColumns, values += h.keys * kPanelColumns) {
    const int columns = h.head_dim - d0 < kPanelColumns ? h.head_dim - d0 : kPanelColumns;
    for (int64_t j = 0; j < h.keys; ++j) {
      float* to = values + j * kPanelColumns;
      __builtin_memcpy(to, h.v + j * h.ldv + d0, static_cast<size_t>(columns) * sizeof(float));
      for (int d = columns; d < kPanelColumns; ++d) to[d] = 0.0f;
    }
  }
}

inline GemmBlock plain_block(const float* x, int64_t ldx, int64_t rows, const float* w, int64_t steps,
                             int64_t columns, float* c, int64_t ldc) {
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

void ragged_attend(const RaggedHead& h) {
  const int64_t lds = round_up(h.keys, kPanelColumns) + kLanes16;
  float* q = h.scratch;                                     // [kRaggedRows][head_dim]
  float* tile = q + round_up(kRaggedRows * h.head_dim, 16);  // [kRaggedRows][64]
  float* scores = tile + kRaggedRows * kPanelColumns;        // [kRaggedRows][lds]
  float inverse[kRaggedRows];
  for (int64_t row = 0; row < h.queries; row += kRaggedRows) {
    const int64_t rows = h.queries - row < kRaggedRows ? h.queries - row : kRaggedRows;
    for (int64_t i = 0; i < rows; ++i)
      for (int d = 0; d < h.head_dim; ++d)
        q[i * h.head_dim + d] = h.q[(row + i) * h.ldq + d] * h.scale;
    for (int64_t j = 0; j < h.keys; j += kPanelColumns)
      gemm<StepF32>(plain_block(q, h.head_dim, rows, h.packed + j * h.head_dim, h.head_dim,
                                h.keys - j, scores + j, lds));
    for (int64_t i = 0; i < rows; ++i) inverse[i] = 1.0f / softmax_row(scores + i * lds, h.keys);
    const float* values = packed_values(h);
    for (int d0 = 0; d0 < h.head_dim; d0 += kPanelColumns, values += h.keys * kPanelColumns) {
      const int columns = h.head_dim - d0 < kPanelColumns ? h.head_dim - d0 : kPanelColumns;
      for (int64_t j = 0; j < h.keys; j += kKeysPerBlock) {
        const int64_t steps = h.keys - j < kKeysPerBlock ? h.keys - j : kKeysPerBlock;
        GemmBlock b = plain_block(scores + j, lds, rows, values + j * kPanelColumns, steps, columns,
                                  tile, kPanelColumns);
        b.accumulate = j > 0;
        gemm<StepF32>(b);
      }
      for (int64_t i = 0; i < rows; ++i)
        for (int d = 0; d < columns; ++d)
          h.out[(row + i) * h.ldo + d0 + d] = tile[i * kPanelColumns + d] * inverse[i];
    }
  }
}

// --- Paged (decoder) -------------------------------------------------------------------------------

inline V load_kv(const float* p) { return load(p); }
inline V load_kv(const uint16_t* p) { return load_bf16(p); }
inline V load_kv_n(const float* p, int n) { return load_n(p, n); }
inline V load_kv_n(const uint16_t* p, int n) { return load_bf16_n(p, n); }

// 16 elements of a key or value at d, zero beyond the head.
template <class T>
inline void load_kv16(V (&v)[kParts], const T* p, int rest) {
#pragma GCC unroll 16
  for (int i = 0; i < kParts; ++i) {
    const int left = rest - i * kLanes;
    v[i] = left >= kLanes ? load_kv(p + i * kLanes) : left <= 0 ? zero()
                                                                : load_kv_n(p + i * kLanes, left);
  }
}

// scores[j] = q . k[j] for consecutive keys; q is padded with zeros to a multiple of 16.
template <class T>
void score_keys(const float* q, const T* k, int64_t key_stride, int64_t count, int head_dim,
                float* scores) {
  for (int64_t j = 0; j < count; ++j, k += key_stride) {
    V acc[kParts], kv[kParts];
    for (int i = 0; i < kParts; ++i) acc[i] = zero();
    for (int d = 0; d < head_dim; d += kLanes16) {
      load_kv16(kv, k + d, head_dim - d);
#pragma GCC unroll 16
      for (int i = 0; i < kParts; ++i) acc[i] = fma(load(q + d + i * kLanes), kv[i], acc[i]);
    }
    scores[j] = reduce_add(acc);
  }
}

// acc += p[j] v[j] for consecutive keys; acc is padded to a multiple of 16.
template <class T>
void add_values(const float* p, const T* v, int64_t key_stride, int64_t count, int head_dim,
                float* acc) {
  for (int d = 0; d < head_dim; d += kLanes16) {
    V a[kParts], vv[kParts];
    for (int i = 0; i < kParts; ++i) a[i] = load(acc + d + i * kLanes);
    for (int64_t j = 0; j < count; ++j) {
      load_kv16(vv, v + j * key_stride + d, head_dim - d);
#pragma GCC unroll 16
      for (int i = 0; i < kParts; ++i) a[i] = fma(set1(p[j]), vv[i], a[i]);
    }
    for (int i = 0; i < kParts; ++i) store(acc + d + i * kLanes, a[i]);
  }
}

template <class T>
void paged_attend(const PagedHead& h) {
  const int64_t last = h.keys + static_cast<int64_t>(h.queries - 1) * h.causal_step;
  const int64_t lds = round_up(last, kLanes16), ldd = round_up(h.head_dim, kLanes16);
  float* q = h.scratch;               // [kPagedQueries][ldd]
  float* acc = q + kPagedQueries * ldd;
  float* scores = acc + kPagedQueries * ldd;  // [kPagedQueries][lds]
  for (int i = 0; i < h.queries; ++i)
    for (int64_t d = 0; d < ldd; ++d) {
      q[i * ldd + d] = d < h.head_dim ? h.q[i * h.ldq + d] * h.scale : 0.0f;
      acc[i * ldd + d] = 0.0f;
    }
  const T* k = static_cast<const T*>(h.k);
  const T* v = static_cast<const T*>(h.v);
  for (int64_t j = 0, page = 0; j < last; j += h.block_size, ++page)
    for (int i = 0; i < h.queries; ++i) {
      const int64_t rest = h.keys + i * h.causal_step - j;
      const int64_t count = rest < h.block_size ? rest : h.block_size;
      if (count > 0)
        score_keys(q + i * ldd, k + h.pages[page] * h.page_stride, h.key_stride, count, h.head_dim,
                   scores + i * lds + j);
    }
  float inverse[kPagedQueries];
  for (int i = 0; i < h.queries; ++i)
    inverse[i] = 1.0f / softmax_row(scores + i * lds, h.keys + i * h.causal_step);
  for (int64_t j = 0, page = 0; j < last; j += h.block_size, ++page)
    for (int i = 0; i < h.queries; ++i) {
      const int64_t rest = h.keys + i * h.causal_step - j;
      const int64_t count = rest < h.block_size ? rest : h.block_size;
      if (count > 0)
        add_values(scores + i * lds + j, v + h.pages[page] * h.page_stride, h.key_stride, count,
                   h.head_dim, acc + i * ldd);
    }
  for (int i = 0; i < h.queries; ++i)
    for (int d = 0; d < h.head_dim; ++d) h.out[i * h.ldo + d] = acc[i * ldd + d] * inverse[i];
}
