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
  const T* ahead;  // the rows to prefetch, or nullptr
  int64_t stride;
  int head_dim;

  [[gnu::always_inline]] void prefetch(int64_t key) const {
    if (ahead == nullptr) return;
    const char* row = reinterpret_cast<const char*>(ahead + key * stride);
    const int bytes = (kChunks > 0 ? kChunks * kLanes16 : head_dim) * static_cast<int>(sizeof(T));
#pragma GCC unroll 8
    for (int i = 0; i < bytes; i += 64) __builtin_prefetch(row + i, 0, 2);
  }

  // Products of a key and kQueries queries, ldq floats apart.
  template <int kQueries>
  [[gnu::always_inline]] void dot(const float* q, int64_t ldq, int64_t key,
                                  V (&acc)[kQueries][kParts]) const {
    const T* k = p + key * stride;
    prefetch(key);
#pragma GCC unroll 4
    for (int t = 0; t < kQueries; ++t)
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) acc[t][i] = zero();
    if constexpr (kChunks > 0) {
#pragma GCC unroll 8
      for (int c = 0; c < kChunks; ++c)
#pragma GCC unroll 4
        for (int i = 0; i < kParts; ++i) {
          const int d = c * kLanes16 + i * kLanes;
          const V kv = load_kv(k + d);
#pragma GCC unroll 4
          for (int t = 0; t < kQueries; ++t) acc[t][i] = fma(load(q + t * ldq + d), kv, acc[t][i]);
        }
    } else {
      V kv[kParts];
      for (int d = 0; d < head_dim; d += kLanes16) {
        load_kv16(kv, k + d, head_dim - d);
#pragma GCC unroll 4
        for (int t = 0; t < kQueries; ++t)
#pragma GCC unroll 4
          for (int i = 0; i < kParts; ++i)
            acc[t][i] = fma(load(q + t * ldq + d + i * kLanes), kv[i], acc[t][i]);
      }
    }
  }
};

// scores[t][j] = q[t] . k[j] for kQueries queries and `count` keys; q are rows of the scratch.
template <class T, int kChunks, int kQueries>
[[gnu::noinline]] void score_keys(const float* q, int64_t ldq, const Rows<T, kChunks>& keys,
                                  int64_t count, float* scores, int64_t lds) {
  int64_t j = 0;
  V acc[kQueries][kParts];
  for (; j + kFoldedKeys <= count; j += kFoldedKeys) {
    V folded[kQueries][kFoldedKeys];
    if constexpr (kQueries == 1) {  // in registers
#pragma GCC unroll 16
      for (int i = 0; i < kFoldedKeys; ++i) {
        keys.dot(q, ldq, j + i, acc);
        folded[0][i] = fold(acc[0]);
      }
    } else {
#pragma GCC unroll 1
      for (int i = 0; i < kFoldedKeys; ++i) {
        keys.dot(q, ldq, j + i, acc);
#pragma GCC unroll 4
        for (int t = 0; t < kQueries; ++t) folded[t][i] = fold(acc[t]);
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kQueries; ++t) reduce_folded(folded[t], scores + t * lds + j);
  }
  for (; j < count; ++j) {
    keys.dot(q, ldq, j, acc);
#pragma GCC unroll 4
    for (int t = 0; t < kQueries; ++t) scores[t * lds + j] = reduce_add(acc[t]);
  }
}

// How many of `chunks` accumulators of 16 floats stay in registers for each of `queries`.
constexpr int chunks_at_a_time(int chunks, int queries) {
  const int most = kLanes == 16 ? 20 : 12;
  if (chunks == 0) return 1;
  int n = chunks;
  while (n > 1 && (chunks % n != 0 || n * kParts * queries > most)) --n;
  return n;
}

// acc[t] += p[t][j] v[j] for kQueries queries and `count` values; acc are rows of the scratch.
template <class T, int kChunks, int kQueries>
[[gnu::noinline]] void add_values(const float* p, int64_t ldp, const Rows<T, kChunks>& values,
                                  int64_t count, float* acc, int64_t ldacc) {
  constexpr int kCount = chunks_at_a_time(kChunks, kQueries);
  for (int d = 0; d < values.head_dim; d += kCount * kLanes16) {
    V a[kQueries][kCount][kParts], v[kParts], weight[kQueries];
#pragma GCC unroll 4
    for (int t = 0; t < kQueries; ++t)
#pragma GCC unroll 8
      for (int c = 0; c < kCount; ++c)
#pragma GCC unroll 4
        for (int i = 0; i < kParts; ++i)
          a[t][c][i] = load(acc + t * ldacc + d + c * kLanes16 + i * kLanes);
    for (int64_t j = 0; j < count; ++j) {
#pragma GCC unroll 4
      for (int t = 0; t < kQueries; ++t) weight[t] = set1(p[t * ldp + j]);
      if (d == 0) values.prefetch(j);
      const T* row = values.p + j * values.stride + d;
#pragma GCC unroll 8
      for (int c = 0; c < kCount; ++c) {
        load_kv16(v, row + c * kLanes16, kChunks > 0 ? kLanes16 : values.head_dim - d);
#pragma GCC unroll 4
        for (int t = 0; t < kQueries; ++t)
#pragma GCC unroll 4
          for (int i = 0; i < kParts; ++i) a[t][c][i] = fma(weight[t], v[i], a[t][c][i]);
      }
    }
#pragma GCC unroll 4
    for (int t = 0; t < kQueries; ++t)
#pragma GCC unroll 8
      for (int c = 0; c < kCount; ++c)
#pragma GCC unroll 4
        for (int i = 0; i < kParts; ++i)
          store(acc + t * ldacc + d + c * kLanes16 + i * kLanes, a[t][c][i]);
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

template <int kQueries>
struct QueryCount {
  static constexpr int value = kQueries;
};

// Calls body(number of queries, row of the first in the scratch, rows of a page, number of the
// first, how many the queries see), for the keys if first_page is 0, for the values if it is
// `pages`. Queries that see as much of the page go together, by four and two.
template <class T, int kChunks, class Body>
[[gnu::always_inline]] inline void for_pages(const PagedHeads& h, int64_t first_page, int64_t pages,
                                             const Body& body) {
  const HeadStream<T> stream{h, pages};
  const int64_t bytes = static_cast<int64_t>(h.head_dim * sizeof(T)) * h.block_size;
  const int64_t ahead = (kBytesAhead + bytes - 1) / bytes;
  int64_t at = first_page * h.heads;
  for (int64_t j = 0; j < pages * h.block_size; j += h.block_size) {
    const auto seen = [&](int query) {
      const int64_t left = keys_of(h, query) - j;
      return left < h.block_size ? left : h.block_size;
    };
    for (int head = 0; head < h.heads; ++head, ++at) {
      Rows<T, kChunks> rows{stream[at], stream[at + ahead], h.key_stride, h.head_dim};
      for (int query = 0; query < h.queries;) {
        const int row = head * h.queries + query, left = h.queries - query;
        const int64_t count = seen(query);
        if (left >= 4 && seen(query + 3) == count) {
          body(QueryCount<4>(), row, rows, j, count);
          query += 4;
        } else if (left >= 2 && seen(query + 1) == count) {
          body(QueryCount<2>(), row, rows, j, count);
          query += 2;
        } else {
          body(QueryCount<1>(), row, rows, j, count);
          query += 1;
        }
        rows.ahead = nullptr;  // has been asked for
      }
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
  for_pages<T, kChunks>(h, 0, pages,
                        [&](auto n, int row, const auto& keys, int64_t j, int64_t count) {
                          score_keys<T, kChunks, n.value>(s.q + row * s.ldd, s.ldd, keys, count,
                                                          s.scores + row * s.lds + j, s.lds);
                        });
  if (h.bias.values != nullptr)
    for (int row = 0; row < h.heads * h.queries; ++row) {
      const int head = row / h.queries, query = row % h.queries;
      add_bias(s.scores + row * s.lds, keys_of(h, query), h.bias.values + head * (h.bias.last + 1),
               h.bias.last, h.bias.zero - (h.position + query));
    }
  float inverse[kPagedRows];
  for (int row = 0; row < h.heads * h.queries; ++row)
    inverse[row] = 1.0f / softmax_row(s.scores + row * s.lds, keys_of(h, row % h.queries));
  for_pages<T, kChunks>(h, pages, pages,
                        [&](auto n, int row, const auto& values, int64_t j, int64_t count) {
                          add_values<T, kChunks, n.value>(s.scores + row * s.lds + j, s.lds, values,
                                                          count, s.acc + row * s.ldd, s.ldd);
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
