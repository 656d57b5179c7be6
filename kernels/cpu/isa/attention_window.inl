// Encoder attention of one head whose queries see a window of keys and some others: global tokens,
// or side keys. Panels of the window lie where they lie in the sequence, at multiples of
// kPanelColumns: nothing depends on which queries share a call. A row of scores has the other keys
// first, filled up to panels, then those that its group of queries sees, from a multiple of
// kWindowStart on; what a query does not see is -inf.

// Narrow windows lose less with fewer queries in a group and with more places to begin. Tiles of
// 512-bit vectors are as wide as a panel, and begin with it.
constexpr int64_t kWindowStart = kLanes == 16 ? kPanelColumns : kLanes16;
constexpr int64_t kFewRows = kLanes == 16 ? kRaggedRows : kRaggedRows / 2;

// What `count` queries from `position` on see of the window together.
inline KeyRange window_of(const RaggedHead& h, int64_t position, int64_t count) {
  const int64_t begin = position - h.back, end = position + count + h.ahead;
  return {begin < h.own.begin ? h.own.begin : begin / kWindowStart * kWindowStart,
          end < h.own.end ? end : h.own.end};
}

inline int64_t others_of(const RaggedHead& h) { return h.global_count + h.side_count; }
// Of k or v.
inline const float* global_row(const RaggedHead& h, const float* rows, int64_t ld, int64_t i) {
  return rows + (h.globals[i] - h.first_row) * ld;
}

// Queries of a group. Each group reads the other keys again.
inline int64_t rows_of_group(const RaggedHead& h) {
  const int64_t seen = h.back + h.ahead + 1;
  return seen < h.own.end - h.own.begin && others_of(h) < seen ? kFewRows : kRaggedRows;
}

// Panels of the other keys, then of the window's; then of values, both one after the other.
struct PackedWindow {
  KeyRange range;
  float *others, *keys, *values;
  int64_t value_rows;
  explicit PackedWindow(const RaggedHead& h)
      : range(h.packed_keys),
        others(h.packed),
        keys(others + round_up(others_of(h), kPanelColumns) * h.head_dim),
        values(keys + round_up(range.end - range.begin, kPanelColumns) * h.head_dim),
        value_rows(others_of(h) + range.end - range.begin) {}
};

void window_pack(const RaggedHead& h) {
  const PackedWindow w(h);
  const int64_t count = others_of(h);
  for (int64_t j = 0; j < round_up(h.global_count, kPanelColumns); ++j) {
    float* panel = w.others + j / kPanelColumns * kPanelColumns * h.head_dim + j % kPanelColumns;
    const float* k = j < count ? global_row(h, h.k, h.ldk, j) : nullptr;
    for (int d = 0; d < h.head_dim; ++d) panel[d * kPanelColumns] = k != nullptr ? k[d] : 0.0f;
  }
  pack_panels(h.side_k, h.ld_side_k, h.side_count, h.head_dim, w.others);
  pack_panels(h.k + w.range.begin * h.ldk, h.ldk, w.range.end - w.range.begin, h.head_dim, w.keys);
  float* values = w.values;
  for (int d0 = 0; d0 < h.head_dim; d0 += kPanelColumns, values += w.value_rows * kPanelColumns) {
    const int columns = columns_from(d0, h.head_dim);
    for (int64_t i = 0; i < h.global_count; ++i)
      pack_values(global_row(h, h.v, h.ldv, i) + d0, 0, 1, columns, values + i * kPanelColumns);
    if (h.side_count > 0) pack_values(h.side_v + d0, h.ld_side_v, h.side_count, columns, values);
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

// Scores of the keys of `range`. A panel that it does not begin with is multiplied in pieces that
// are no wider than any tile.
inline void multiply_window(const GemmBlock& rows, const KeyRange& range, const PackedWindow& w) {
  const int64_t before = range.begin - w.range.begin, width = range.end - range.begin;
  GemmBlock b = rows;
  for (int64_t j = 0; j < width; j += b.columns) {
    const int64_t inside = (before + j) % kPanelColumns;
    const int64_t most = inside == 0 ? kPanelColumns : kLanes16;
    b.w = w.keys + (before + j - inside) * rows.steps + inside;
    b.columns = static_cast<int>(width - j < most ? width - j : most);
    b.c = rows.c + j;
    gemm<StepF32>(b);
  }
}

void window_attend(const RaggedHead& h) {
  const PackedWindow w(h);
  const int64_t group = rows_of_group(h);
  const int64_t count = others_of(h), first = round_up(count, kPanelColumns);
  float* q = h.scratch;                                      // [kRaggedRows][head_dim]
  float* tile = q + round_up(kRaggedRows * h.head_dim, 16);  // [kRaggedRows][64]
  float* scores = tile + kRaggedRows * kPanelColumns;        // [kRaggedRows][lds]
  float inverse[kRaggedRows];
  for (int64_t row = 0; row < h.queries; row += group) {
    const int64_t rows = h.queries - row < group ? h.queries - row : group;
    const KeyRange range = window_of(h, h.position + row, rows);
    const int64_t width = range.end - range.begin, before = range.begin - w.range.begin;
    const int64_t lds = first + round_up(width, kPanelColumns) + kPanelColumns;
    scale_queries(h, row, rows, q);
    for (int64_t j = 0; j < count; j += kPanelColumns)
      gemm<StepF32>(plain_block(q, h.head_dim, rows, w.others + j * h.head_dim, h.head_dim,
                                count - j, scores + j, lds));
    multiply_window(plain_block(q, h.head_dim, rows, nullptr, h.head_dim, 0, scores + first, lds),
                    range, w);
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
