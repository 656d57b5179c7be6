// Attention of several sequences over pages of which they share the first ones: these are read
// once, for all of them together. A row keeps scores, softmax and sums of its own, in the order of
// attention_paged.inl, so it has the bits that it has alone.

// Calls body as for_pages() does, for the keys or for the values: of the shared pages with rows of
// all members, then of each member's own pages with its rows.
template <class T, int kChunks, class Body>
[[gnu::always_inline]] inline void for_shared_pages(const SharedHeads& g, bool values,
                                                    const Body& body) {
  PagedHeads h = g.heads;
  const int members = h.queries, group = h.group;
  const int64_t shared = g.shared_pages, shared_keys = shared * h.block_size;
  h.pages = g.members[0].pages;
  h.keys = shared_keys;
  h.causal_step = 0;
  for_pages<T, kChunks>(h, values ? shared : 0, shared,
                        [&](auto n, int row, const auto& rows, int64_t j, int64_t count) {
                          body(n, row, rows, j, count);
                        });
  h.queries = 1;
  for (int m = 0; m < members; ++m) {
    h.pages = g.members[m].pages + shared;
    h.keys = g.members[m].keys - shared_keys;
    if (h.keys <= 0) continue;
    const int64_t own = (h.keys + h.block_size - 1) / h.block_size;
    for_pages<T, kChunks>(h, values ? own : 0, own,
                          [&](auto n, int row, const auto& rows, int64_t j, int64_t count) {
                            const int head = row / group, i = row % group;
                            body(n, (head * members + m) * group + i, rows, shared_keys + j, count);
                          });
  }
}

[[gnu::noinline]] void adjust_shared_scores(const SharedHeads& g, const PagedScratch& s) {
  const PagedHeads& h = g.heads;
  for_rows(h, [&](int row, int member, int head) {
    float* scores = s.scores + row * s.lds;
    const int64_t keys = g.members[member].keys;
    if (h.soft_cap > 0) soft_cap(h.soft_cap, scores, keys);
    if (h.bias.values != nullptr)
      add_bias(scores, keys, h.bias.values + head * (h.bias.last + 1), h.bias.last,
               h.bias.zero - g.members[member].position);
  });
}

template <class T, int kChunks>
void paged_attend_shared_chunks(const SharedHeads& g) {
  const PagedHeads& h = g.heads;
  int64_t most_keys = 0;
  for (int m = 0; m < h.queries; ++m)
    if (g.members[m].keys > most_keys) most_keys = g.members[m].keys;
  const PagedScratch s(h, most_keys);
  for_rows(h, [&](int row, int member, int head) {
    const float* q = g.members[member].q + head * h.head_dim;
    for (int d = 0; d < h.head_dim; ++d) s.q[row * s.ldd + d] = q[d] * h.scale;
  });
  for_shared_pages<T, kChunks>(
      g, false, [&](auto n, int row, const auto& keys, int64_t j, int64_t count) {
        score_keys<T, kChunks, n.value>(s.q + row * s.ldd, s.ldd, keys, count,
                                        s.scores + row * s.lds + j, s.lds);
      });
  if (h.bias.values != nullptr || h.soft_cap > 0) adjust_shared_scores(g, s);
  for_rows(h, [&](int row, int member, int head) {
    float top;
    const float sum = softmax_row(s.scores + row * s.lds, g.members[member].keys, &top);
    s.inverse[row] = 1.0f / sum;
    if (g.members[member].log_sums != nullptr)
      g.members[member].log_sums[head] = top + __builtin_logf(sum);
  });
  for_shared_pages<T, kChunks>(
      g, true, [&](auto n, int row, const auto& values, int64_t j, int64_t count) {
        add_values<T, kChunks, n.value>(s.scores + row * s.lds + j, s.lds, values, count,
                                        s.acc + row * s.ldd, s.ldd);
      });
  for_rows(h, [&](int row, int member, int head) {
    float* out = g.members[member].out + head * h.head_dim;
    for (int d = 0; d < h.head_dim; ++d) out[d] = s.acc[row * s.ldd + d] * s.inverse[row];
  });
}

template <class T>
void paged_attend_shared(const SharedHeads& g) {
  switch (g.heads.head_dim) {
    case 32: return paged_attend_shared_chunks<T, 2>(g);
    case 64: return paged_attend_shared_chunks<T, 4>(g);
    case 80: return paged_attend_shared_chunks<T, 5>(g);
    case 128: return paged_attend_shared_chunks<T, 8>(g);
    case 256: return paged_attend_shared_chunks<T, 16>(g);
    default: return paged_attend_shared_chunks<T, 0>(g);
  }
}
