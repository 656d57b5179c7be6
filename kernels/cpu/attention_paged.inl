// Attention of some heads over pages. Keys and values are rows of head_dim elements, read once and
// in order. Pages are scattered, so that the hardware does not foresee them: with each row goes the
// prefetch of the row that stands kBytesAhead later, into the second cache (the first has too
// few requests in flight).

inline V load_kv(const float* p) { return load(p); }
inline V load_kv(const uint16_t* p) { return load_bf16(p); }
inline V load_kv_n(const float* p, int n) { return load_n(p, n); }
inline V load_kv_n(const uint16_t* p, int n) { return load_bf16_n(p, n); }

// 16 elements of a key or value, zero where `rest` (what the head has left) ends.
template <class T>
[[gnu::always_inline]] inline void load_kv16(V (&v)[kParts], const T* p, int rest) {
#pragma GCC unroll 4
  for (int i = 0; i < kParts; ++i) {
    const int left = rest - i * kLanes;
    v[i] =
        left >= kLanes ? load_kv(p + i * kLanes) : load_kv_n(p + i * kLanes, left < 0 ? 0 : left);
  }
}

// The keys or the values of a page, of heads of kChunks times 16 elements (0: of any size).
template <class T, int kChunks>
struct Rows {
  const T* p;
  const T* ahead;  // the rows to prefetch
  int64_t stride;
  int head_dim;

  [[gnu::always_inline]] void prefetch(int64_t key) const {
    const char* row = reinterpret_cast<const char*>(ahead + key * stride);
    const int bytes = (kChunks > 0 ? kChunks * kLanes16 : head_dim) * static_cast<int>(sizeof(T));
#pragma GCC unroll 8
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 0, 2);
  }

  [[gnu::always_inline]] void dot(const float* q, int64_t key, V (&acc)[kParts]) const {
    const T* k = p + key * stride;
    prefetch(key);
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) acc[i] = zero();
    if constexpr (kChunks > 0) {
#pragma GCC unroll 8
      for (int c = 0; c < kChunks; ++c)
#pragma GCC unroll 4
        for (int i = 0; i < kParts; ++i) {
          const int d = c * kLanes16 + i * kLanes;
          acc[i] = fma(load(q + d), load_kv(k + d), acc[i]);
        }
    } else {
      V kv[kParts];
      for (int d = 0; d < head_dim; d += kLanes16) {
        load_kv16(kv, k + d, head_dim - d);
#pragma GCC unroll 4
        for (int i = 0; i < kParts; ++i) acc[i] = fma(load(q + d + i * kLanes), kv[i], acc[i]);
      }
    }
  }
};

// scores[j] = q . k[j] for `count` keys; q is a row of the scratch.
template <class T, int kChunks>
[[gnu::noinline]] void score_keys(const float* q, const Rows<T, kChunks>& keys, int64_t count,
                                  float* scores) {
  int64_t j = 0;
  V acc[kParts];
  for (; j + kFoldedKeys <= count; j += kFoldedKeys) {
    V folded[kFoldedKeys];
#pragma GCC unroll 16
    for (int i = 0; i < kFoldedKeys; ++i) {
      keys.dot(q, j + i, acc);
      folded[i] = fold(acc);
    }
    reduce_folded(folded, scores + j);
  }
  for (; j < count; ++j) {
    keys.dot(q, j, acc);
    scores[j] = reduce_add(acc);
  }
}

// acc += p[j] v[j] for `count` values; acc is a row of the scratch.
template <class T, int kChunks>
[[gnu::noinline]] void add_values(const float* p, const Rows<T, kChunks>& values, int64_t count,
                                  float* acc) {
  // Chunks in registers at a time.
  constexpr bool kHalves = kChunks % 2 == 0 && kChunks * kParts > 12;
  constexpr int kCount = kChunks == 0 ? 1 : kHalves ? kChunks / 2 : kChunks;
  for (int d = 0; d < values.head_dim; d += kCount * kLanes16) {
    V a[kCount][kParts], v[kParts];
#pragma GCC unroll 8
    for (int c = 0; c < kCount; ++c)
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) a[c][i] = load(acc + d + c * kLanes16 + i * kLanes);
    for (int64_t j = 0; j < count; ++j) {
      const V weight = set1(p[j]);
      if (d == 0) values.prefetch(j);
      const T* row = values.p + j * values.stride + d;
#pragma GCC unroll 8
      for (int c = 0; c < kCount; ++c) {
        load_kv16(v, row + c * kLanes16, kChunks > 0 ? kLanes16 : values.head_dim - d);
#pragma GCC unroll 4
        for (int i = 0; i < kParts; ++i) a[c][i] = fma(weight, v[i], a[c][i]);
      }
    }
#pragma GCC unroll 8
    for (int c = 0; c < kCount; ++c)
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) store(acc + d + c * kLanes16 + i * kLanes, a[c][i]);
  }
}

// What is read, in order: for each page its heads, first the keys of all pages, then the values.
template <class T>
struct HeadStream {
  const PagedHeads& h;
  int64_t pages;
  const T* operator[](int64_t i) const {
    const int64_t page = i / h.heads, head = i % h.heads;
    const T* base = static_cast<const T*>(page < pages ? h.k : h.v);
    const int64_t index = page < pages ? page : page < 2 * pages ? page - pages : pages - 1;
    return base + h.pages[index] * h.page_stride + head * h.head_stride;
  }
};

constexpr int64_t kBytesAhead = 8192;

// The scratch memory of one call: rows by head and query. q and acc start at zero.
struct PagedScratch {
  int64_t ldd, lds;
  float *q, *acc, *scores;
  PagedScratch(const PagedHeads& h, int64_t most_keys)
      : ldd(round_up(h.head_dim, kLanes16)),
        lds(round_up(most_keys, kLanes16)),
        q(h.scratch),
        acc(q + h.heads * h.queries * ldd),
        scores(acc + h.heads * h.queries * ldd) {
    for (int64_t i = 0; i < h.heads * h.queries * ldd; ++i) q[i] = acc[i] = 0.0f;
  }
};

// How many keys a query sees.
inline int64_t keys_of(const PagedHeads& h, int query) {
  return h.keys + static_cast<int64_t>(query) * h.causal_step;
}

// Calls body(row of the scratch, rows of a page, number of the first, how many the query sees), for
// the keys if first_page is 0, for the values if it is `pages`.
template <class T, int kChunks, class Body>
[[gnu::always_inline]] inline void for_pages(const PagedHeads& h, int64_t first_page, int64_t pages,
                                             const Body& body) {
  const HeadStream<T> stream{h, pages};
  const int64_t bytes = static_cast<int64_t>(h.head_dim * sizeof(T)) * h.block_size;
  const int64_t ahead = (kBytesAhead + bytes - 1) / bytes;
  int64_t at = first_page * h.heads;
  for (int64_t j = 0; j < pages * h.block_size; j += h.block_size)
    for (int head = 0; head < h.heads; ++head, ++at) {
      Rows<T, kChunks> rows{stream[at], stream[at + ahead], h.key_stride, h.head_dim};
      for (int query = 0; query < h.queries; ++query) {
        const int64_t left = keys_of(h, query) - j;
        body(head * h.queries + query, rows, j, left < h.block_size ? left : h.block_size);
        rows.ahead = rows.p;  // is in cache
      }
    }
}

template <class T, int kChunks>
void paged_attend_chunks(const PagedHeads& h) {
  const int64_t most_keys = keys_of(h, h.queries - 1);
  const int64_t pages = (most_keys + h.block_size - 1) / h.block_size;
  const PagedScratch s(h, most_keys);
  for (int row = 0; row < h.heads * h.queries; ++row) {
    const float* q = h.q + row / h.queries * h.head_dim + row % h.queries * h.ldq;
    for (int d = 0; d < h.head_dim; ++d) s.q[row * s.ldd + d] = q[d] * h.scale;
  }
  for_pages<T, kChunks>(h, 0, pages, [&](int row, const auto& keys, int64_t j, int64_t count) {
    score_keys(s.q + row * s.ldd, keys, count, s.scores + row * s.lds + j);
  });
  float inverse[kPagedRows];
  for (int row = 0; row < h.heads * h.queries; ++row)
    inverse[row] = 1.0f / softmax_row(s.scores + row * s.lds, keys_of(h, row % h.queries));
  for_pages<T, kChunks>(
      h, pages, pages, [&](int row, const auto& values, int64_t j, int64_t count) {
        add_values(s.scores + row * s.lds + j, values, count, s.acc + row * s.ldd);
      });
  for (int row = 0; row < h.heads * h.queries; ++row) {
    float* out = h.out + row / h.queries * h.head_dim + row % h.queries * h.ldo;
    for (int d = 0; d < h.head_dim; ++d) out[d] = s.acc[row * s.ldd + d] * inverse[row];
  }
}

template <class T>
void paged_attend(const PagedHeads& h) {
  switch (h.head_dim) {
    case 32: return paged_attend_chunks<T, 2>(h);
    case 64: return paged_attend_chunks<T, 4>(h);
    case 80: return paged_attend_chunks<T, 5>(h);
    case 128: return paged_attend_chunks<T, 8>(h);
    default: return paged_attend_chunks<T, 0>(h);
  }
}
