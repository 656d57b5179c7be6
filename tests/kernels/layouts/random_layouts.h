// Random arguments of the ops of kernels/layouts/layout_ops.h, with what is rare in them: requests
// without queries or keys, rows that see nothing, odd sizes.
#pragma once

#include <limits>
#include <vector>

#include "kernels/layouts/layout_ops.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::testing {

class RandomLayouts {
 public:
  // `keys`: the type of keys and values, f32 or bf16.
  RandomLayouts(Random& random, DType keys) : random_(random), type_(keys) { draw_sizes(); }

  ops::AttendRaggedArgs ragged() {
    ops::AttendRaggedArgs args;
    const int64_t m = sum(key_counts_), dim = width(),
                  v_dim = random_.integer(0, 1) ? dim : width();
    args.layout = layout_;
    args.q = normal({queries(), heads_, dim});
    args.k = stored(nhd() ? Shape{m, kv_heads_, dim} : Shape{kv_heads_, m, dim});
    args.v = stored(nhd() ? Shape{m, kv_heads_, v_dim} : Shape{kv_heads_, m, v_dim});
    args.qo_indptr = indices(indptr_of(query_counts_));
    args.kv_indptr = indices(indptr_of(key_counts_));
    args.scores = scores(dim);
    args.out = unwritten({queries(), heads_, v_dim});
    args.lse = unwritten({queries(), heads_});
    return args;
  }

  ops::AttendPagesArgs pages() {
    ops::AttendPagesArgs args;
    const int64_t dim = width();
    args.table = table(key_counts_);
    args.cache = cache(dim);
    args.q = normal({queries(), heads_, dim});
    args.qo_indptr = indices(indptr_of(query_counts_));
    args.scores = scores(dim);
    args.out = unwritten(args.q.shape());
    args.lse = unwritten({queries(), heads_});
    return args;
  }

  ops::AttendLatentArgs latent() {
    ops::AttendLatentArgs args;
    const int64_t ckv = width(), kpe = width();
    args.table = table(key_counts_);
    args.cache = latent_cache(ckv, kpe);
    args.q_nope = normal({queries(), heads_, ckv});
    args.q_pe = normal({queries(), heads_, kpe});
    args.qo_indptr = indices(indptr_of(query_counts_));
    args.scores = scores(ckv + kpe);
    args.out = unwritten(args.q_nope.shape());
    args.lse = unwritten({queries(), heads_});
    return args;
  }

  // `levels` outlives what is returned.
  ops::AttendCascadeArgs cascade(std::vector<ops::CascadeLevel>& levels) {
    ops::AttendCascadeArgs args;
    const int64_t dim = width();
    args.q = normal({queries(), heads_, dim});
    levels.resize(static_cast<size_t>(random_.integer(1, 4)));
    for (ops::CascadeLevel& level : levels) {
      // Groups of consecutive queries, of which some are empty.
      std::vector<int32_t> cuts{0, static_cast<int32_t>(queries())}, keys;
      for (int64_t i = random_.integer(0, 3); i > 0; --i)
        cuts.push_back(static_cast<int32_t>(random_.integer(0, queries())));
      std::sort(cuts.begin(), cuts.end());
      for (size_t i = 1; i < cuts.size(); ++i) keys.push_back(key_count());
      level = {indices(cuts), table(keys)};
    }
    args.cache = cache(dim);
    args.levels = levels;
    args.scale = 1.0f / std::sqrt(static_cast<float>(dim));
    args.soft_cap = random_.pick({0.0f, 2.0f});
    args.causal = random_.integer(0, 1) == 1;
    args.out = unwritten(args.q.shape());
    args.lse = unwritten({queries(), heads_});
    return args;
  }

  ops::MergeStatesArgs states() {
    const int64_t count = random_.integer(1, 5), dim = width();
    ops::MergeStatesArgs args{normal({count, queries(), heads_, dim}),
                              normal({count, queries(), heads_}),
                              unwritten({queries(), heads_, dim}), unwritten({queries(), heads_})};
    for (int64_t i = 0; i < args.s.size(); ++i) {
      if (random_.integer(0, 3) > 0) continue;
      args.s.data<float>()[i] = kUnseen;
      std::fill_n(args.v.data<float>() + i * dim, dim, kNan);
    }
    return args;
  }

  ops::AppendPagesArgs append() {
    ops::AppendPagesArgs args;
    const int64_t dim = width();
    args.table = table(key_counts_);
    args.cache = cache(dim);
    draw_places(args.batch_indices, args.positions);
    const int64_t rows = args.positions.dim(0);
    args.append_key = normal({rows, kv_heads_, dim});
    args.append_value = normal({rows, kv_heads_, dim});
    return args;
  }

  ops::AppendLatentArgs append_latent() {
    ops::AppendLatentArgs args;
    const int64_t ckv = width(), kpe = width();
    args.table = table(key_counts_);
    args.cache = latent_cache(ckv, kpe);
    draw_places(args.batch_indices, args.positions);
    args.append_ckv = normal({args.positions.dim(0), ckv});
    args.append_kpe = normal({args.positions.dim(0), kpe});
    return args;
  }

  // Of f32, which tests fill in vain if something is not written.
  static Tensor unwritten(const Shape& shape) {
    const Tensor t(shape, DType::kF32);
    std::fill_n(t.data<float>(), t.size(), kNan);
    return t;
  }

 private:
  static constexpr float kUnseen = -std::numeric_limits<float>::infinity();
  static constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

  void draw_sizes() {
    kv_heads_ = random_.integer(1, 3);
    heads_ = kv_heads_ * random_.integer(1, 3);
    page_size_ = random_.pick<int64_t>({1, 2, 3, 8, 16});
    layout_ = random_.pick({KvLayout::kNHD, KvLayout::kHND});
    for (int64_t i = random_.integer(0, 4); i > 0; --i) {
      query_counts_.push_back(random_.pick({0, 1, 1, 2, 3, 5, 17}));
      key_counts_.push_back(key_count());
    }
  }
  int32_t key_count() { return random_.pick({0, 1, 2, 7, 16, 33, 64, 65, 130}); }
  int64_t width() { return random_.pick<int64_t>({1, 7, 8, 16, 24, 32, 64, 80}); }
  bool nhd() const { return layout_ == KvLayout::kNHD; }
  int64_t queries() const { return sum(query_counts_); }
  static int64_t sum(const std::vector<int32_t>& counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
  }
  bool coin() { return random_.integer(0, 1) == 1; }

  Tensor normal(const Shape& shape) {
    const Tensor t(shape, DType::kF32);
    for (int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = random_.normal();
    return t;
  }
  // In the type of keys and values.
  Tensor stored(const Shape& shape) {
    const Tensor t = normal(shape);
    return type_ == DType::kF32 ? t : to_bf16(t);
  }

  // Shuffled pages, some of them in several requests; three are in none.
  KvPageTable table(const std::vector<int32_t>& keys) {
    std::vector<int32_t> indptr{0}, last, order;
    for (const int32_t n : keys) {
      indptr.push_back(indptr.back() + static_cast<int32_t>((n + page_size_ - 1) / page_size_));
      last.push_back(n == 0 ? 0 : static_cast<int32_t>((n - 1) % page_size_ + 1));
    }
    pages_ = std::max<int64_t>(pages_, indptr.back() + 3);
    for (int32_t i = 0; i < pages_; ++i) order.push_back(i);
    std::shuffle(order.begin(), order.end(), random_.engine());
    order.resize(static_cast<size_t>(indptr.back()));
    return {indices(indptr), indices(order), indices(last)};
  }
  // Of tables that are made already.
  PagedKvCache cache(int64_t dim) {
    PagedKvCache made;
    made.layout = layout_;
    const Shape inner =
        nhd() ? Shape{page_size_, kv_heads_, dim} : Shape{kv_heads_, page_size_, dim};
    const auto shape = [&](std::initializer_list<int64_t> first) {
      Shape all = first;
      all.insert(all.end(), inner.begin(), inner.end());
      return all;
    };
    if (coin()) {
      made.kv_cache = stored(shape({pages_, 2}));
    } else {
      made.k_cache = stored(shape({pages_}));
      made.v_cache = stored(shape({pages_}));
    }
    return made;
  }
  MlaCache latent_cache(int64_t ckv, int64_t kpe) {
    MlaCache made;
    if (coin()) {
      made.mla_cache = stored({pages_, page_size_, ckv + kpe});
    } else {
      made.ckv_cache = stored({pages_, page_size_, ckv});
      made.kpe_cache = stored({pages_, page_size_, kpe});
    }
    return made;
  }

  ScoreRules scores(int64_t dim) {
    ScoreRules rules;
    rules.scale = 1.0f / std::sqrt(static_cast<float>(dim));
    rules.soft_cap = random_.pick({0.0f, 0.0f, 2.0f});
    rules.causal = coin();
    const int64_t mask = random_.integer(0, 2);
    int64_t elements = 0;
    std::vector<int32_t> starts{0}, bytes{0};
    for (size_t s = 0; s < query_counts_.size(); ++s) {
      const int32_t count = query_counts_[s] * key_counts_[s];
      elements += count;
      starts.push_back(starts.back() + count);
      bytes.push_back(bytes.back() + (count + 7) / 8);
    }
    if (mask == 1) {
      rules.custom_mask = Tensor({elements}, DType::kU8);
      for (int64_t i = 0; i < elements; ++i)
        rules.custom_mask.data<uint8_t>()[i] = random_.pick<uint8_t>({0, 1, 1, 2, 255});
    } else if (mask == 2) {
      rules.packed_custom_mask = Tensor({bytes.back()}, DType::kU8);
      for (int64_t i = 0; i < bytes.back(); ++i)
        rules.packed_custom_mask.data<uint8_t>()[i] = static_cast<uint8_t>(random_.integer(0, 255));
    }
    if (coin()) rules.bias = bias(elements);
    if ((mask > 0 || rules.bias.rank() > 0) && coin())
      rules.mask_indptr = indices(mask == 2 ? bytes : starts);
    return rules;
  }
  Tensor bias(int64_t elements) {
    const Tensor t = coin() ? random_.strided(heads_, elements) : normal({elements});
    const int64_t rows = t.rank() == 2 ? heads_ : 1;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < elements; ++j)
        if (random_.integer(0, 9) == 0)
          (t.rank() == 2 ? t.row<float>(i) : t.data<float>())[j] = kUnseen;
    return t;
  }

  // Of some tokens of the requests, in any order.
  void draw_places(Tensor& batch_indices, Tensor& positions) {
    std::vector<std::pair<int32_t, int32_t>> places;
    for (size_t s = 0; s < key_counts_.size(); ++s)
      for (int32_t j = 0; j < key_counts_[s]; ++j)
        if (random_.integer(0, 3) == 0) places.emplace_back(static_cast<int32_t>(s), j);
    std::shuffle(places.begin(), places.end(), random_.engine());
    std::vector<int32_t> batch, position;
    for (const auto& [s, j] : places) {
      batch.push_back(s);
      position.push_back(j);
    }
    batch_indices = indices(batch);
    positions = indices(position);
  }

  Random& random_;
  DType type_;
  int64_t heads_, kv_heads_, page_size_, pages_ = 3;
  KvLayout layout_;
  std::vector<int32_t> query_counts_, key_counts_;
};

// |a - b| <= allowed (1 + |b|), infinities the same; tensors of f32, the leading dimension strided.
inline ::testing::AssertionResult close_to(const Tensor& a, const Tensor& b, double allowed) {
  if (a.shape() != b.shape())
    return ::testing::AssertionFailure() << to_string(a.shape()) << " and " << to_string(b.shape());
  const int64_t rows = a.dim(0), size = rows == 0 ? 0 : a.size() / rows;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < size; ++j) {
      const double x = a.row<float>(i)[j], y = b.row<float>(i)[j];
      if (x != y && !(std::abs(x - y) <= allowed * (1 + std::abs(y))))
        return ::testing::AssertionFailure()
               << "row " << i << ", element " << j << ": " << x << ", expected " << y;
    }
  return ::testing::AssertionSuccess();
}

}  // namespace tandem::testing
