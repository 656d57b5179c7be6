#include "kernels/layouts/reference_layouts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/reference.h"

namespace tandem::reference {
namespace {

// Element [i, j, …] of a tensor.
int64_t offset_of(const Tensor& t, const Shape& at) {
  int64_t offset = at[0] * t.row_stride(), size = 1;
  for (size_t i = at.size() - 1; i > 0; --i) {
    offset += at[i] * size;
    size *= t.dim(static_cast<int>(i));
  }
  return offset;
}
double at(const Tensor& t, const Shape& where) {
  return element(t.raw(), t.dtype(), offset_of(t, where));
}
void put(const Tensor& t, const Shape& where, double x) {
  const int64_t offset = offset_of(t, where);
  if (t.dtype() == DType::kF32)
    t.data<float>()[offset] = static_cast<float>(x);
  else
    t.data<uint16_t>()[offset] = float_to_bf16(static_cast<float>(x));
}

// Keys and values of one request, with numbers of their own.
struct Keys {
  int64_t count;
  std::function<double(int64_t j, int64_t head, int64_t d)> key, value;
};

// The page and the place in it of token j of request s.
struct Place {
  int64_t page, token;
};
Place place_of(const KvPageTable& table, int64_t s, int64_t j, int64_t page_size) {
  return {table.kv_indices.data<int32_t>()[table.kv_indptr.data<int32_t>()[s] + j / page_size],
          j % page_size};
}
int64_t length_of(const KvPageTable& table, int64_t s, int64_t page_size) {
  const int32_t* indptr = table.kv_indptr.data<int32_t>();
  const int64_t pages = indptr[s + 1] - indptr[s];
  return pages == 0 ? 0 : (pages - 1) * page_size + table.kv_last_page_len.data<int32_t>()[s];
}

bool is_nhd(KvLayout layout) { return layout == KvLayout::kNHD; }
// The element of a cache; which: 0 keys, 1 values.
const Tensor& tensor_of(const PagedKvCache& cache, int which) {
  if (cache.kv_cache.rank() > 0) return cache.kv_cache;
  return which == 0 ? cache.k_cache : cache.v_cache;
}
Shape where_of(const PagedKvCache& cache, int which, const Place& place, int64_t head, int64_t d) {
  Shape where = {place.page};
  if (cache.kv_cache.rank() > 0) where.push_back(which);
  where.push_back(is_nhd(cache.layout) ? place.token : head);
  where.push_back(is_nhd(cache.layout) ? head : place.token);
  where.push_back(d);
  return where;
}
int64_t page_size_of(const PagedKvCache& cache) {
  const bool joint = cache.kv_cache.rank() > 0;
  return tensor_of(cache, 0).dim((joint ? 2 : 1) + (is_nhd(cache.layout) ? 0 : 1));
}

// Whether query i of request s sees key j, and what is added to its score; by lengths of the
// request and by where its matrix begins.
class Rules {
 public:
  Rules(const ScoreRules& rules, int64_t queries, int64_t keys, int64_t element, int64_t byte)
      : rules_(rules), queries_(queries), keys_(keys), element_(element), byte_(byte) {}
  bool sees(int64_t i, int64_t j) const {
    if (rules_.causal && j > i + keys_ - queries_) return false;
    const int64_t place = i * keys_ + j;
    if (rules_.custom_mask.rank() > 0)
      return rules_.custom_mask.data<uint8_t>()[element_ + place] != 0;
    if (rules_.packed_custom_mask.rank() == 0) return true;
    const uint8_t byte = rules_.packed_custom_mask.data<uint8_t>()[byte_ + place / 8];
    return (byte & (1u << place % 8)) != 0;
  }
  double score(int64_t i, int64_t j, int64_t head, double product) const {
    double x = product * double{rules_.scale};
    if (rules_.soft_cap > 0) x = double{rules_.soft_cap} * std::tanh(x / double{rules_.soft_cap});
    if (rules_.bias.rank() == 0) return x;
    const int64_t place = element_ + i * keys_ + j;
    return x +
           (rules_.bias.rank() == 2 ? at(rules_.bias, {head, place}) : at(rules_.bias, {place}));
  }

 private:
  const ScoreRules& rules_;
  int64_t queries_, keys_, element_, byte_;
};

// One query's head over the keys.
void attend_row(const Keys& keys, const Rules& rules, int64_t i, int64_t head, int64_t kv_head,
                const std::vector<double>& q, int64_t row, const Tensor& out, const Tensor& lse) {
  std::vector<double> scores(static_cast<size_t>(keys.count), -HUGE_VAL);
  for (int64_t j = 0; j < keys.count; ++j) {
    if (!rules.sees(i, j)) continue;
    double product = 0;
    for (size_t d = 0; d < q.size(); ++d)
      product += q[d] * keys.key(j, kv_head, static_cast<int64_t>(d));
    scores[static_cast<size_t>(j)] = rules.score(i, j, head, product);
  }
  const double top = scores.empty() ? -HUGE_VAL : *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (const double s : scores) sum += top == -HUGE_VAL ? 0 : std::exp(s - top);
  for (int64_t d = 0; d < out.dim(2); ++d) {
    double y = 0;
    for (int64_t j = 0; j < keys.count && sum > 0; ++j) {
      const double weight = std::exp(scores[static_cast<size_t>(j)] - top) / sum;
      if (weight > 0) y += weight * keys.value(j, kv_head, d);
    }
    put(out, {row, head, d}, y);
  }
  if (lse.rank() > 0) put(lse, {row, head}, sum > 0 ? top + std::log(sum) : -HUGE_VAL);
}

// keys_of(s): of request s. q_of(row, head): a query.
void attend_all(const Tensor& qo_indptr, const ScoreRules& rules, int64_t kv_heads,
                const std::function<Keys(int64_t)>& keys_of,
                const std::function<std::vector<double>(int64_t, int64_t)>& q_of, const Tensor& out,
                const Tensor& lse) {
  const int32_t* qo = qo_indptr.data<int32_t>();
  int64_t element = 0, byte = 0;
  for (int64_t s = 0; s + 1 < qo_indptr.dim(0); ++s) {
    const Keys keys = keys_of(s);
    const int64_t queries = qo[s + 1] - qo[s];
    const Rules of_request(rules, queries, keys.count, element, byte);
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t head = 0; head < out.dim(1); ++head)
        attend_row(keys, of_request, i, head, head / (out.dim(1) / kv_heads), q_of(qo[s] + i, head),
                   qo[s] + i, out, lse);
    element += queries * keys.count;
    byte += (queries * keys.count + 7) / 8;
  }
}

std::function<std::vector<double>(int64_t, int64_t)> rows_of(const Tensor& q) {
  return [&q](int64_t row, int64_t head) {
    std::vector<double> x;
    for (int64_t d = 0; d < q.dim(2); ++d) x.push_back(at(q, {row, head, d}));
    return x;
  };
}

}  // namespace

void attend_ragged(const ops::AttendRaggedArgs& args) {
  const bool nhd = is_nhd(args.layout);
  const int32_t* kv = args.kv_indptr.data<int32_t>();
  const auto keys_of = [&](int64_t s) {
    const auto reader = [&args, nhd, first = kv[s]](const Tensor& t) {
      return [&t, nhd, first](int64_t j, int64_t head, int64_t d) {
        return nhd ? at(t, {first + j, head, d}) : at(t, {head, first + j, d});
      };
    };
    return Keys{kv[s + 1] - kv[s], reader(args.k), reader(args.v)};
  };
  attend_all(args.qo_indptr, args.scores, args.k.dim(nhd ? 1 : 0), keys_of, rows_of(args.q),
             args.out, args.lse);
}

void attend_pages(const ops::AttendPagesArgs& args) {
  const int64_t page_size = page_size_of(args.cache);
  const Tensor& k = tensor_of(args.cache, 0);
  const int64_t kv_heads = k.dim(k.rank() - (is_nhd(args.cache.layout) ? 2 : 3));
  const auto keys_of = [&](int64_t s) {
    const auto reader = [&args, s, page_size](int which) {
      return [&args, s, page_size, which](int64_t j, int64_t head, int64_t d) {
        return at(tensor_of(args.cache, which),
                  where_of(args.cache, which, place_of(args.table, s, j, page_size), head, d));
      };
    };
    return Keys{length_of(args.table, s, page_size), reader(0), reader(1)};
  };
  attend_all(args.qo_indptr, args.scores, kv_heads, keys_of, rows_of(args.q), args.out, args.lse);
}

void attend_latent(const ops::AttendLatentArgs& args) {
  const bool joint = args.cache.mla_cache.rank() > 0;
  const Tensor& first = joint ? args.cache.mla_cache : args.cache.ckv_cache;
  const int64_t page_size = first.dim(1), ckv = args.q_nope.dim(2);
  const auto keys_of = [&](int64_t s) {
    const auto element_of = [&, s](int64_t j, int64_t, int64_t d) {
      const Place place = place_of(args.table, s, j, page_size);
      return joint || d < ckv ? at(first, {place.page, place.token, d})
                              : at(args.cache.kpe_cache, {place.page, place.token, d - ckv});
    };
    return Keys{length_of(args.table, s, page_size), element_of, element_of};
  };
  const auto q_of = [&](int64_t row, int64_t head) {
    std::vector<double> x = rows_of(args.q_nope)(row, head);
    const std::vector<double> rest = rows_of(args.q_pe)(row, head);
    x.insert(x.end(), rest.begin(), rest.end());
    return x;
  };
  attend_all(args.qo_indptr, args.scores, 1, keys_of, q_of, args.out, args.lse);
}

void merge_states(const ops::MergeStatesArgs& args) {
  for (int64_t t = 0; t < args.v.dim(1); ++t)
    for (int64_t h = 0; h < args.v.dim(2); ++h) {
      double sum = 0;
      for (int64_t i = 0; i < args.v.dim(0); ++i) sum += std::exp(at(args.s, {i, t, h}));
      for (int64_t d = 0; d < args.v.dim(3); ++d) {
        double y = 0;
        for (int64_t i = 0; i < args.v.dim(0); ++i) {
          const double weight = std::exp(at(args.s, {i, t, h}));
          if (weight > 0) y += weight / sum * at(args.v, {i, t, h, d});
        }
        put(args.out, {t, h, d}, y);
      }
      if (args.lse.rank() > 0) put(args.lse, {t, h}, std::log(sum));
    }
}

// By hand: the keys of all levels as those of one request for each query.
void attend_cascade(const ops::AttendCascadeArgs& args) {
  const int64_t page_size = page_size_of(args.cache);
  const Tensor& k = tensor_of(args.cache, 0);
  const int64_t kv_heads = k.dim(k.rank() - (is_nhd(args.cache.layout) ? 2 : 3));
  for (int64_t row = 0; row < args.q.dim(0); ++row) {
    std::vector<Place> places;
    for (size_t l = 0; l < args.levels.size(); ++l) {
      const ops::CascadeLevel& level = args.levels[l];
      const int32_t* qo = level.qo_indptr.data<int32_t>();
      int64_t s = 0;
      while (qo[s + 1] <= row) ++s;
      const int64_t keys = length_of(level.table, s, page_size);
      const bool causal = args.causal && l + 1 == args.levels.size();
      for (int64_t j = 0; j < keys && (!causal || j <= row - qo[s] + keys - (qo[s + 1] - qo[s]));
           ++j)
        places.push_back(place_of(level.table, s, j, page_size));
    }
    const auto reader = [&](int which) {
      return [&, which](int64_t j, int64_t head, int64_t d) {
        return at(tensor_of(args.cache, which),
                  where_of(args.cache, which, places[static_cast<size_t>(j)], head, d));
      };
    };
    const Keys keys{static_cast<int64_t>(places.size()), reader(0), reader(1)};
    ScoreRules scores;
    scores.scale = args.scale;
    scores.soft_cap = args.soft_cap;
    const Rules rules(scores, 1, keys.count, 0, 0);
    for (int64_t head = 0; head < args.q.dim(1); ++head)
      attend_row(keys, rules, 0, head, head / (args.q.dim(1) / kv_heads),
                 rows_of(args.q)(row, head), row, args.out, args.lse);
  }
}

void append_pages(const ops::AppendPagesArgs& args) {
  for (int64_t r = 0; r < args.append_key.dim(0); ++r) {
    const Place place = place_of(args.table, args.batch_indices.data<int32_t>()[r],
                                 args.positions.data<int32_t>()[r], page_size_of(args.cache));
    for (int64_t h = 0; h < args.append_key.dim(1); ++h)
      for (int64_t d = 0; d < args.append_key.dim(2); ++d)
        for (int which = 0; which < 2; ++which)
          put(tensor_of(args.cache, which), where_of(args.cache, which, place, h, d),
              at(which == 0 ? args.append_key : args.append_value, {r, h, d}));
  }
}

void append_latent(const ops::AppendLatentArgs& args) {
  const bool joint = args.cache.mla_cache.rank() > 0;
  const Tensor& first = joint ? args.cache.mla_cache : args.cache.ckv_cache;
  const Tensor& second = joint ? args.cache.mla_cache : args.cache.kpe_cache;
  const int64_t ckv = args.append_ckv.dim(1);
  for (int64_t r = 0; r < args.append_ckv.dim(0); ++r) {
    const Place place = place_of(args.table, args.batch_indices.data<int32_t>()[r],
                                 args.positions.data<int32_t>()[r], first.dim(1));
    for (int64_t d = 0; d < ckv; ++d)
      put(first, {place.page, place.token, d}, at(args.append_ckv, {r, d}));
    for (int64_t d = 0; d < args.append_kpe.dim(1); ++d)
      put(second, {place.page, place.token, (joint ? ckv : 0) + d}, at(args.append_kpe, {r, d}));
  }
}

void pack_bits(const ops::PackBitsArgs& args) {
  const bool segmented = args.indptr.rank() > 0;
  const int32_t whole[] = {0, static_cast<int32_t>(args.x.dim(0))};
  const int32_t* at_segment = segmented ? args.indptr.data<int32_t>() : whole;
  std::vector<uint8_t> bytes;
  for (int64_t s = 0; s < (segmented ? args.indptr.dim(0) - 1 : 1); ++s)
    for (int64_t i = at_segment[s]; i < at_segment[s + 1]; ++i) {
      const int64_t bit = (i - at_segment[s]) % 8;
      if (bit == 0) bytes.push_back(0);
      if (args.x.data<uint8_t>()[i] != 0) bytes.back() |= static_cast<uint8_t>(1u << bit);
    }
  std::copy(bytes.begin(), bytes.end(), args.packed.data<uint8_t>());
}

}  // namespace tandem::reference
