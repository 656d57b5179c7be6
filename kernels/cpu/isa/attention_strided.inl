// Products with keys and values anywhere in memory, a run at a time. The sums are those of
// attention_paged.inl: a score has the order of the head dimension, an output that of the keys.

// Calls body(chunks of 16 elements if known at compile time, else 0).
template <class Body>
[[gnu::always_inline]] inline void with_chunks(int head_dim, const Body& body) {
  switch (head_dim) {
    case 32: return body(QueryCount<2>());
    case 64: return body(QueryCount<4>());
    case 80: return body(QueryCount<5>());
    case 128: return body(QueryCount<8>());
    case 256: return body(QueryCount<16>());
    default: return body(QueryCount<0>());
  }
}

// Calls body(how many, the first) for rows by four, two and one.
template <class Body>
[[gnu::always_inline]] inline void for_row_groups(int rows, const Body& body) {
  int row = 0;
  for (; row + 4 <= rows; row += 4) body(QueryCount<4>(), row);
  if (row + 2 <= rows) {
    body(QueryCount<2>(), row);
    row += 2;
  }
  if (row < rows) body(QueryCount<1>(), row);
}

template <class T>
void score_run(const StridedRun& run, const float* x, int64_t ldx, float* scores, int64_t lds) {
  with_chunks(run.head_dim, [&](auto chunks) {
    const Rows<T, chunks.value> keys{
        static_cast<const T*>(run.data), nullptr, run.stride, run.head_dim, nullptr, 0};
    for_row_groups(run.rows, [&](auto n, int row) {
      score_keys<T, chunks.value, n.value>(x + row * ldx, ldx, keys, run.count, scores + row * lds,
                                           lds);
    });
  });
}

template <class T>
void add_run(const StridedRun& run, float* x, int64_t ldx, float* weights, int64_t ldw) {
  with_chunks(run.head_dim, [&](auto chunks) {
    const Rows<T, chunks.value> values{
        static_cast<const T*>(run.data), nullptr, run.stride, run.head_dim, nullptr, 0};
    for_row_groups(run.rows, [&](auto n, int row) {
      add_values<T, chunks.value, n.value>(weights + row * ldw, ldw, values, run.count,
                                           x + row * ldx, ldx);
    });
  });
}
