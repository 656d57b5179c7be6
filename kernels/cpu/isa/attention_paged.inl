// Attention of some heads over pages. Keys and values are rows of head_dim elements, read once and
// in order. Pages are scattered, so that the hardware does not foresee them: with each row goes the
// prefetch of the row that stands kBytesAhead later, into the second cache (the first has too
// few requests in flight). Scales of int8 are of whole rows: a score is multiplied by its key's, a
// weight by its value's.

inline V load_kv(const float* p) { return load(p); }
inline V load_kv(const uint16_t* p) { return load_bf16(p); }
inline V load_kv(const int8_t* p) { return float_of_i32(load_i8(p)); }
inline V load_kv_n(const float* p, int n) { return load_n(p, n); }
inline V load_kv_n(const uint16_t* p, int n) { return load_bf16_n(p, n); }
inline V load_kv_n(const int8_t* p, int n) {
  int8_t part[kLanes] = {};
  __builtin_memcpy(part, p, static_cast<size_t>(n));
  return load_kv(part);
}

template <class T>
constexpr bool kIsScaled = sizeof(T) == 1;

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
  const float* scales;  // of int8
  int64_t scale_stride;

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

// x[j] *= the scale of row j, for `count` rows.
template <class T, int kChunks>
inline void scale_by(const Rows<T, kChunks>& rows, int64_t count, float* x) {
  if constexpr (kIsScaled<T>) {
    int64_t j = 0;
    if (rows.scale_stride == 1) {
      for (; j + kLanes <= count; j += kLanes) store(x + j, load(x + j) * load(rows.scales + j));
    }
    for (; j < count; ++j) x[j] *= rows.scales[j * rows.scale_stride];
  }
}

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
  for (int t = 0; t < kQueries; ++t) scale_by(keys, count, scores + t * lds);
}

// How many of `chunks` accumulators of 16 floats stay in registers for each of `queries`.
constexpr int chunks_at_a_time(int chunks, int queries) {
  const int most = kLanes == 16 ? 20 : 12;
  if (chunks == 0) return 1;
  int n = chunks < 8 ? chunks : 8;
  while (n > 1 && (chunks % n != 0 || n * kParts * queries > most)) --n;
  return n;
}

// acc[t] += p[t][j] v[j] for kQueries queries and `count` values; acc are rows of the scratch. p
// is multiplied by the values' scales.
template <class T, int kChunks, int kQueries>
[[gnu::noinline]] void add_values(float* p, int64_t ldp, const Rows<T, kChunks>& values,
                                  int64_t count, float* acc, int64_t ldacc) {
  for (int t = 0; t < kQueries; ++t) scale_by(values, count, p + t * ldp);
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
template <class T, int kChunks>
class HeadStream {
 public:
  HeadStream(const PagedHeads& heads, int64_t count) : heads_(heads), pages_(count) {}
  // Number i, with number i + ahead to prefetch, of which the scales are asked for here.
  Rows<T, kChunks> rows(int64_t i, int64_t ahead) const {
    const Place place = place_of(i), later = place_of(i + ahead);
    Rows<T, kChunks> out{at(place), at(later), heads_.key_stride, heads_.head_dim, nullptr, 0};
    if constexpr (kIsScaled<T>) {
      out.scales = scales_at(place);
      out.scale_stride = token_scales_;
      const float* next = scales_at(later);
      for (int j = 0; j < heads_.block_size; j += kLanes16) __builtin_prefetch(next + j, 0, 2);
    }
    return out;
  }

 private:
  struct Place {
    bool values;
    int64_t page, head;
  };
  Place place_of(int64_t i) const {
    const int64_t page = i / heads_.heads;
    const int64_t index = page < pages_ ? page : page < 2 * pages_ ? page - pages_ : pages_ - 1;
    return {page >= pages_, heads_.pages[index], i % heads_.heads};
  }
  const T* at(const Place& p) const {
    return static_cast<const T*>(p.values ? heads_.v : heads_.k) + p.page * heads_.page_stride +
           p.head * heads_.head_stride;
  }
  const float* scales_at(const Place& p) const {
    return (p.values ? heads_.v_scales : heads_.k_scales) + p.page * page_scales_ +
           p.head * head_scales_;
  }

  const PagedHeads& heads_;
  int64_t pages_;
  int64_t page_scales_ =
      kIsScaled<T> ? heads_.page_stride / heads_.head_dim : 0;  // strides of scales
  int64_t head_scales_ = kIsScaled<T> ? heads_.head_stride / heads_.head_dim : 0;
  int64_t token_scales_ = kIsScaled<T> ? heads_.key_stride / heads_.head_dim : 0;
};

constexpr int64_t kBytesAhead = 8192;

// What attends to one head of keys: rows by query, and in a query by its heads of the group.
inline int rows_of(const PagedHeads& h) { return h.queries * h.group; }
inline int query_of(const PagedHeads& h, int row) { return h.group == 1 ? row : row / h.group; }

// The scratch memory of one call: rows by head of keys, then as above. q and acc start at zero, the
// first page's scores at `lane`, so that a key's lane does not depend on which pages are read.
struct PagedScratch {
  int64_t ldd, lds;
  float *q, *acc, *scores, *inverse;
  PagedScratch(const PagedHeads& h, int64_t most_keys)
      : ldd(round_up(h.head_dim, kLanes16)),
        lds(round_up(h.lane + most_keys, kLanes16)),
        q(h.scratch),
        acc(q + h.heads * rows_of(h) * ldd),
        scores(acc + h.heads * rows_of(h) * ldd),
        inverse(scores + h.heads * rows_of(h) * lds) {
    for (int64_t i = 0; i < h.heads * rows_of(h) * ldd; ++i) q[i] = acc[i] = 0.0f;
  }
};

// Up to where a query sees the keys.
inline int64_t keys_of(const PagedHeads& h, int query) {
  return h.keys + static_cast<int64_t>(query) * h.causal_step;
}

template <int kQueries>
struct QueryCount {
  static constexpr int value = kQueries;
};

// Calls body(number of rows, the first in the scratch, rows of a page, number of the first of
// these, how many of them are seen), for the keys if first_page is 0, for the values if it is
// `pages`. Rows of a head that see as much of the page go together, by four and two.
template <class T, int kChunks, class Body>
[[gnu::always_inline]] inline void for_pages(const PagedHeads& h, int64_t first_page, int64_t pages,
                                             const Body& body) {
  const HeadStream<T, kChunks> stream(h, pages);
  const int64_t bytes = static_cast<int64_t>(h.head_dim * sizeof(T)) * h.block_size;
  const int64_t ahead = (kBytesAhead + bytes - 1) / bytes;
  const int count_of_rows = rows_of(h);
  int64_t at = first_page * h.heads;
  for (int64_t j = 0; j < pages * h.block_size; j += h.block_size) {
    const auto seen = [&](int row) {
      const int64_t left = keys_of(h, query_of(h, row)) - j;
      return left < h.block_size ? left : h.block_size;
    };
    for (int head = 0; head < h.heads; ++head, ++at) {
      Rows<T, kChunks> rows = stream.rows(at, ahead);
      for (int i = 0; i < count_of_rows;) {
        const int row = head * count_of_rows + i, left = count_of_rows - i;
        const int64_t count = seen(i);
        if (left >= 4 && seen(i + 3) == count) {
          body(QueryCount<4>(), row, rows, j, count);
          i += 4;
        } else if (left >= 2 && seen(i + 1) == count) {
          body(QueryCount<2>(), row, rows, j, count);
          i += 2;
        } else {
          body(QueryCount<1>(), row, rows, j, count);
          i += 1;
        }
        rows.ahead = nullptr;  // has been asked for
      }
    }
  }
}

// Calls body(row of the scratch, query, head of queries).
template <class Body>
[[gnu::always_inline]] inline void for_rows(const PagedHeads& h, const Body& body) {
  int row = 0;
  for (int head = 0; head < h.heads * h.group; head += h.group)
    for (int query = 0; query < h.queries; ++query)
      for (int i = 0; i < h.group; ++i, ++row) body(row, query, head + i);
}

// What happens to scores between product and softmax.
[[gnu::noinline]] void adjust_scores(const PagedHeads& h, const PagedScratch& s) {
  for_rows(h, [&](int row, int query, int head) {
    float* scores = s.scores + row * s.lds + h.lane;
    const int64_t keys = keys_of(h, query);
    if (h.soft_cap > 0) soft_cap(h.soft_cap, scores, keys);
    if (h.bias.values != nullptr)
      add_bias(scores, keys, h.bias.values + head * (h.bias.last + 1), h.bias.last,
               h.bias.zero - (h.position + query));
    const int64_t unseen = h.window_back < 0 ? 0 : keys - 1 - h.window_back;
    for (int64_t j = -h.lane; j < unseen; ++j) scores[j] = -__builtin_inff();
  });
}

template <class T, int kChunks>
void paged_attend_chunks(const PagedHeads& h) {
  const int64_t most_keys = keys_of(h, h.queries - 1);
  const int64_t pages = (most_keys + h.block_size - 1) / h.block_size;
  const PagedScratch s(h, most_keys);
  for_rows(h, [&](int row, int query, int head) {
    const float* q = h.q + head * h.head_dim + query * h.ldq;
    for (int d = 0; d < h.head_dim; ++d) s.q[row * s.ldd + d] = q[d] * h.scale;
  });
  float* scores = s.scores + h.lane;
  for_pages<T, kChunks>(h, 0, pages,
                        [&](auto n, int row, const auto& keys, int64_t j, int64_t count) {
                          score_keys<T, kChunks, n.value>(s.q + row * s.ldd, s.ldd, keys, count,
                                                          scores + row * s.lds + j, s.lds);
                        });
  if (h.bias.values != nullptr || h.soft_cap > 0 || h.window_back >= 0) adjust_scores(h, s);
  for_rows(h, [&](int row, int query, int head) {
    float top;
    const float sum = softmax_row(s.scores + row * s.lds, h.lane + keys_of(h, query), &top);
    s.inverse[row] = 1.0f / sum;
    if (h.log_sums != nullptr) h.log_sums[query * h.ld_log_sums + head] = top + __builtin_logf(sum);
  });
  for_pages<T, kChunks>(h, pages, pages,
                        [&](auto n, int row, const auto& values, int64_t j, int64_t count) {
                          add_values<T, kChunks, n.value>(scores + row * s.lds + j, s.lds, values,
                                                          count, s.acc + row * s.ldd, s.ldd);
                        });
  for_rows(h, [&](int row, int query, int head) {
    float* out = h.out + head * h.head_dim + query * h.ldo;
    for (int d = 0; d < h.head_dim; ++d) out[d] = s.acc[row * s.ldd + d] * s.inverse[row];
  });
}

template <class T>
void paged_attend(const PagedHeads& h) {
  switch (h.head_dim) {
    case 32: return paged_attend_chunks<T, 2>(h);
    case 64: return paged_attend_chunks<T, 4>(h);
    case 80: return paged_attend_chunks<T, 5>(h);
    case 128: return paged_attend_chunks<T, 8>(h);
    case 256: return paged_attend_chunks<T, 16>(h);
    default: return paged_attend_chunks<T, 0>(h);
  }
}
