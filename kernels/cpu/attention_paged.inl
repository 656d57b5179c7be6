// Attention of one head over pages. Keys and values are rows of head_dim elements, read once and in
// order. Pages are scattered, so that the hardware does not foresee them: with each row goes the
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

// A head of kChunks times 16 elements, or of any head_dim if kChunks is 0.
template <class T, int kChunks>
struct Keys {
  const T* p;
  const T* ahead;  // the page to prefetch
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
    V kv[kParts];
#pragma GCC unroll 4
    for (int i = 0; i < kParts; ++i) acc[i] = zero();
    if constexpr (kChunks > 0) {
#pragma GCC unroll 8
      for (int c = 0; c < kChunks; ++c) {
        load_kv16(kv, k + c * kLanes16, kLanes16);
#pragma GCC unroll 4
        for (int i = 0; i < kParts; ++i)
          acc[i] = fma(load(q + c * kLanes16 + i * kLanes), kv[i], acc[i]);
      }
    } else {
      for (int d = 0; d < head_dim; d += kLanes16) {
        load_kv16(kv, k + d, head_dim - d);
#pragma GCC unroll 4
        for (int i = 0; i < kParts; ++i) acc[i] = fma(load(q + d + i * kLanes), kv[i], acc[i]);
      }
    }
  }
};

// scores[j] = q . k[j] for `count` keys; q is padded with zeros to a multiple of 16.
template <class T, int kChunks>
[[gnu::noinline]] void score_keys(const float* q, const Keys<T, kChunks>& keys, int64_t count,
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

// acc += p[j] v[j] for `count` values; acc is padded to a multiple of 16.
template <class T, int kChunks>
[[gnu::noinline]] void add_values(const float* p, const Keys<T, kChunks>& values, int64_t count,
                                  float* acc) {
  constexpr int kSteps = kChunks > 0 ? kChunks : 1;  // chunks of 16 in registers at a time
  for (int d = 0; d < values.head_dim; d += kSteps * kLanes16) {
    V a[kSteps][kParts], v[kParts];
#pragma GCC unroll 8
    for (int c = 0; c < kSteps; ++c)
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) a[c][i] = load(acc + d + c * kLanes16 + i * kLanes);
    for (int64_t j = 0; j < count; ++j) {
      const V weight = set1(p[j]);
      if (d == 0) values.prefetch(j);
      const T* row = values.p + j * values.stride + d;
#pragma GCC unroll 8
      for (int c = 0; c < kSteps; ++c) {
        load_kv16(v, row + c * kLanes16, kChunks > 0 ? kLanes16 : values.head_dim - d);
#pragma GCC unroll 4
        for (int i = 0; i < kParts; ++i) a[c][i] = fma(weight, v[i], a[c][i]);
      }
    }
#pragma GCC unroll 8
    for (int c = 0; c < kSteps; ++c)
#pragma GCC unroll 4
      for (int i = 0; i < kParts; ++i) store(acc + d + c * kLanes16 + i * kLanes, a[c][i]);
  }
}

// Of `keys`, how many lie in the page that starts at j.
inline int64_t keys_in_page(const PagedHead& h, int64_t keys, int64_t j) {
  return keys - j < h.block_size ? keys - j : h.block_size;
}

// The pages of one head in the order in which they are read: all of K, all of V, then the next
// head's.
template <class T>
struct PageStream {
  const PagedHead& h;
  int64_t pages;
  const T* operator[](int64_t i) const {
    const T* base = static_cast<const T*>(h.k);
    if (i >= 2 * pages) {
      base += h.next_head;
      i -= 2 * pages;
    } else if (i >= pages) {
      base = static_cast<const T*>(h.v);
      i -= pages;
    }
    return base + h.pages[i < pages ? i : pages - 1] * h.page_stride;
  }
};

constexpr int64_t kBytesAhead = 8192;

template <class T, int kChunks>
void paged_attend_chunks(const PagedHead& h) {
  const int64_t last = h.keys + static_cast<int64_t>(h.queries - 1) * h.causal_step;
  const PageStream<T> stream{h, (last + h.block_size - 1) / h.block_size};
  const int64_t page_bytes = static_cast<int64_t>(h.head_dim * sizeof(T)) * h.block_size;
  const int64_t pages_ahead = (kBytesAhead + page_bytes - 1) / page_bytes;
  const int64_t lds = round_up(last, kLanes16), ldd = round_up(h.head_dim, kLanes16);
  float* q = h.scratch;  // [kPagedQueries][ldd]
  float* acc = q + kPagedQueries * ldd;
  float* scores = acc + kPagedQueries * ldd;  // [kPagedQueries][lds]
  for (int i = 0; i < h.queries; ++i)
    for (int64_t d = 0; d < ldd; ++d) {
      q[i * ldd + d] = d < h.head_dim ? h.q[i * h.ldq + d] * h.scale : 0.0f;
      acc[i * ldd + d] = 0.0f;
    }
  // Calls body(query, page, first key of the page, keys of it that the query sees).
  const auto for_pages = [&](int64_t first, const auto& body) {
    for (int64_t page = 0; page < stream.pages; ++page) {
      const T* p = stream[first + page];
      for (int i = 0; i < h.queries; ++i)
        body(i,
             Keys<T, kChunks>{p, i == 0 ? stream[first + page + pages_ahead] : p, h.key_stride,
                              h.head_dim},
             page * h.block_size, keys_in_page(h, h.keys + i * h.causal_step, page * h.block_size));
    }
  };
  for_pages(0, [&](int i, const auto& keys, int64_t j, int64_t count) {
    score_keys(q + i * ldd, keys, count, scores + i * lds + j);
  });
  float inverse[kPagedQueries];
  for (int i = 0; i < h.queries; ++i)
    inverse[i] = 1.0f / softmax_row(scores + i * lds, h.keys + i * h.causal_step);
  for_pages(stream.pages, [&](int i, const auto& values, int64_t j, int64_t count) {
    add_values(scores + i * lds + j, values, count, acc + i * ldd);
  });
  for (int i = 0; i < h.queries; ++i)
    for (int d = 0; d < h.head_dim; ++d) h.out[i * h.ldo + d] = acc[i * ldd + d] * inverse[i];
}

template <class T>
void paged_attend(const PagedHead& h) {
  switch (h.head_dim) {
    case 32: return paged_attend_chunks<T, 2>(h);
    case 64: return paged_attend_chunks<T, 4>(h);
    case 80: return paged_attend_chunks<T, 5>(h);
    case 128: return paged_attend_chunks<T, 8>(h);
    default: return paged_attend_chunks<T, 0>(h);
  }
}
