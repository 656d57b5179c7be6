// Encoder attention of one head whose queries see a window of keys and some global ones. Panels of
// the window lie where they lie in the sequence, at multiples of kPanelColumns: nothing depends on
// which queries share a call. A row of scores has the global keys first, filled up to panels, then
// those from the panel on in which its kRaggedRows queries begin to see; what a query does not see
// is -inf.

struct KeyRange {
  int64_t begin, end;
};

// What `count` queries from `position` on see of the window together; from a whole panel on.
inline KeyRange window_of(const RaggedHead& h, int64_t position, int64_t count) {
  const int64_t begin = position - h.back, end = position + count + h.ahead;
  return {begin < 0 ? 0 : begin / kPanelColumns * kPanelColumns, end < h.keys ? end : h.keys};
}

inline const float* global_row(const RaggedHead& h, const float* rows, int64_t ld, int64_t i) {
  return rows + (h.globals[i] - h.first_row) * ld;
}

// Panels of the global keys, then of the window's; then of values, both one after the other.
struct PackedWindow {
  KeyRange range;
  float *globals, *keys, *values;
  int64_t value_rows;
  explicit PackedWindow(const RaggedHead& h)
      : range(window_of(h, h.position, h.queries)),
        globals(h.packed),
        keys(globals + round_up(h.global_count, kPanelColumns) * h.head_dim),
        values(keys + round_up(range.end - range.begin, kPanelColumns) * h.head_dim),
        value_rows(h.global_count + range.end - range.begin) {}
};

void window_pack(const RaggedHead& h) {
  const PackedWindow w(h);
  for (int64_t j = 0; j < round_up(h.global_count, kPanelColumns); ++j) {
    float* panel = w.globals + j / kPanelColumns * kPanelColumns * h.head_dim + j % kPanelColumns;
    const float* k = j < h.global_count ? global_row(h, h.k, h.ldk, j) : nullptr;
    for (int d = 0; d < h.head_dim; ++d) panel[d * kPanelColumns] = k != nullptr ? k[d] : 0.0f;
  }
  for (int64_t j = w.range.begin; j < w.range.end; j += kPanelColumns) {
    const int64_t keys = w.range.end - j < kPanelColumns ? w.range.end - j : kPanelColumns;
    pack_keys(h.k + j * h.ldk, h.ldk, keys, h.head_dim, w.keys + (j - w.range.begin) * h.head_dim);
  }
  float* values = w.values;
  for (int d0 = 0; d0 < h.head_dim; d0 += kPanelColumns, values += w.value_rows * kPanelColumns) {
    const int columns = columns_from(d0, h.head_dim);
    for (int64_t i = 0; i < h.global_count; ++i)
      pack_values(global_row(h, h.v, h.ldv, i) + d0, 0, 1, columns, values + i * kPanelColumns);
    pack_values(h.v + w.range.begin * h.ldv + d0, h.ldv, w.range.end - w.range.begin, columns,
                values + h.global_count * kPanelColumns);
  }
}

// Cap, bias and what a query does not see, in its row of scores.
[[gnu::noinline]] void adjust_window_scores(const RaggedHead& h, int64_t position,
                                            const KeyRange& range, float* scores) {
  const int64_t first = round_up(h.global_count, kPanelColumns), width = range.end - range.begin;
  float* window = scores + first;
  if (h.soft_cap > 0) {
    soft_cap(h.soft_cap, scores, h.global_count);
    soft_cap(h.soft_cap, window, width);
  }
  if (h.bias.values != nullptr)
    add_bias(window, width, h.bias.values, h.bias.last, h.bias.zero - (position - range.begin));
  const float unseen = -__builtin_inff();
  for (int64_t i = 0; i < h.global_count; ++i) {
    const int64_t key = h.globals[i] - h.first_row;
    if (h.bias.values != nullptr)
      add_bias(scores + i, 1, h.bias.values, h.bias.last, h.bias.zero + key - position);
    if (key >= position - h.back && key <= position + h.ahead) scores[i] = unseen;
  }
  for (int64_t i = h.global_count; i < first; ++i) scores[i] = unseen;
  for (int64_t j = 0; j < position - h.back - range.begin; ++j) window[j] = unseen;
  for (int64_t j = position + h.ahead + 1 - range.begin; j < width; ++j) window[j] = unseen;
}

void window_attend(const RaggedHead& h) {
  const PackedWindow w(h);
  const int64_t first = round_up(h.global_count, kPanelColumns);
  float* q = h.scratch;                                      // [kRaggedRows][head_dim]
  float* tile = q + round_up(kRaggedRows * h.head_dim, 16);  // [kRaggedRows][64]
  float* scores = tile + kRaggedRows * kPanelColumns;        // [kRaggedRows][lds]
  float inverse[kRaggedRows];
  for (int64_t row = 0; row < h.queries; row += kRaggedRows) {
    const int64_t rows = h.queries - row < kRaggedRows ? h.queries - row : kRaggedRows;
    const KeyRange range = window_of(h, h.position + row, rows);
    const int64_t width = range.end - range.begin, before = range.begin - w.range.begin;
    const int64_t lds = first + round_up(width, kPanelColumns) + kLanes16;
    scale_queries(h, row, rows, q);
    for (int64_t j = 0; j < h.global_count; j += kPanelColumns)
      gemm<StepF32>(plain_block(q, h.head_dim, rows, w.globals + j * h.head_dim, h.head_dim,
                                h.global_count - j, scores + j, lds));
    for (int64_t j = 0; j < width; j += kPanelColumns)
      gemm<StepF32>(plain_block(q, h.head_dim, rows, w.keys + (before + j) * h.head_dim, h.head_dim,
                                width - j, scores + first + j, lds));
    for (int64_t i = 0; i < rows; ++i) {
      adjust_window_scores(h, h.position + row + i, range, scores + i * lds);
      inverse[i] = 1.0f / softmax_row(scores + i * lds, first + width);
    }
    const float* values = w.values;
    for (int d0 = 0; d0 < h.head_dim; d0 += kPanelColumns, values += w.value_rows * kPanelColumns) {
      const int columns = columns_from(d0, h.head_dim);
      add_value_blocks(scores, lds, rows, values, h.global_count, columns, false, tile);
      add_value_blocks(scores + first, lds, rows,
                       values + (h.global_count + before) * kPanelColumns, width, columns,
                       h.global_count > 0, tile);
      store_tile(h, row, rows, d0, columns, tile, inverse);
    }
  }
}
