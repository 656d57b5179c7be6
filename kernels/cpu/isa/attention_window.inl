// Encoder attention of one head whose queries see a window of keys and some others: global tokens,
// or side keys. Panels of the window lie where they lie in the sequence, at multiples of
// kPanelColumns: nothing depends on which queries share a call. A row of scores has the other keys
// first, filled up to panels, then those from the panel on in which its kRaggedRows queries begin
// to see; what a query does not see is -inf.

struct KeyRange {
  int64_t begin, end;
};

// What `count` queries from `position` on see of the window together; from a whole panel on.
inline KeyRange window_of(const RaggedHead& h, int64_t position, int64_t count) {
  const int64_t begin = position - h.back, end = position + count + h.ahead;
  return {begin < 0 ? 0 : begin / kPanelColumns * kPanelColumns, end < h.keys ? end : h.keys};
}

inline int64_t others_of(const RaggedHead& h) { return h.global_count + h.side_count; }
inline const float* other_key(const RaggedHead& h, int64_t i) {
  return h.side_count > 0 ? h.side_k + i * h.ld_side_k : h.k + (h.globals[i] - h.first_row) * h.ldk;
}
inline const float* other_value(const RaggedHead& h, int64_t i) {
  return h.side_count > 0 ? h.side_v + i * h.ld_side_v : h.v + (h.globals[i] - h.first_row) * h.ldv;
}

// Panels of the other keys, then of the window's; then of values, both one after the other.
struct PackedWindow {
  KeyRange range;
  float *others, *keys, *values;
  int64_t value_rows;
  explicit PackedWindow(const RaggedHead& h)
      : range(window_of(h, h.position, h.queries)),
        others(h.packed),
        keys(others + round_up(others_of(h), kPanelColumns) * h.head_dim),
        values(keys + round_up(range.end - range.begin, kPanelColumns) * h.head_dim),
        value_rows(others_of(h) + range.end - range.begin) {}
};

void window_pack(const RaggedHead& h) {
  const PackedWindow w(h);
  const int64_t count = others_of(h);
  for (int64_t j = 0; j < round_up(count, kPanelColumns); ++j) {
    float* panel = w.others + j / kPanelColumns * kPanelColumns * h.head_dim + j % kPanelColumns;
    const float* k = j < count ? other_key(h, j) : nullptr;
    for (int d = 0; d < h.head_dim; ++d) panel[d * kPanelColumns] = k != nullptr ? k[d] : 0.0f;
  }
  for (int64_t j = w.range.begin; j < w.range.end; j += kPanelColumns) {
    const int64_t keys = w.range.end - j < kPanelColumns ? w.range.end - j : kPanelColumns;
    pack_keys(h.k + j * h.ldk, h.ldk, keys, h.head_dim, w.keys + (j - w.range.begin) * h.head_dim);
  }
  float* values = w.values;
  for (int d0 = 0; d0 < h.head_dim; d0 += kPanelColumns, values += w.value_rows * kPanelColumns) {
    const int columns = columns_from(d0, h.head_dim);
    for (int64_t i = 0; i < count; ++i)
      pack_values(other_value(h, i) + d0, 0, 1, columns, values + i * kPanelColumns);
    pack_values(h.v + w.range.begin * h.ldv + d0, h.ldv, w.range.end - w.range.begin, columns,
                values + count * kPanelColumns);
  }
}

// Cap, bias and what a query does not see, in its row of scores.
[[gnu::noinline]] void adjust_window_scores(const RaggedHead& h, int64_t position,
                                            const KeyRange& range, float* scores) {
  const int64_t count = others_of(h), first = round_up(count, kPanelColumns);
  const int64_t width = range.end - range.begin;
  float* window = scores + first;
  if (h.soft_cap > 0) {
    soft_cap(h.soft_cap, scores, count);
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
  if (h.side_bias.values != nullptr && h.side_count > 0) {
    const int64_t unit = h.side_unit == 0 ? 0 : position / h.side_unit;
    const int64_t own = unit < h.side_count ? unit : h.side_count - 1;
    add_bias(scores, h.side_count, h.side_bias.values, h.side_bias.last, h.side_bias.zero - own);
  }
  for (int64_t i = count; i < first; ++i) scores[i] = unseen;
  for (int64_t j = 0; j < position - h.back - range.begin; ++j) window[j] = unseen;
  for (int64_t j = position + h.ahead + 1 - range.begin; j < width; ++j) window[j] = unseen;
}

void window_attend(const RaggedHead& h) {
  const PackedWindow w(h);
  const int64_t count = others_of(h), first = round_up(count, kPanelColumns);
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
    for (int64_t j = 0; j < count; j += kPanelColumns)
      gemm<StepF32>(plain_block(q, h.head_dim, rows, w.others + j * h.head_dim, h.head_dim,
                                count - j, scores + j, lds));
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
      add_value_blocks(scores, lds, rows, values, count, columns, false, tile);
      add_value_blocks(scores + first, lds, rows, values + (count + before) * kPanelColumns, width,
                       columns, count > 0, tile);
      store_tile(h, row, rows, d0, columns, tile, inverse);
    }
  }
}
