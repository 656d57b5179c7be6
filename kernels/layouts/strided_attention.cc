#include "kernels/layouts/strided_attention.h"

namespace tandem {
namespace {

// Of [.., tokens, heads, dim] or [.., heads, tokens, dim]: the strides of the last three.
KeySide side_of(const Tensor& t, int64_t tokens, int64_t heads, int64_t dim, KvLayout layout) {
  const bool nhd = layout == KvLayout::kNHD;
  return {t.raw(), t.row_stride(), nhd ? heads * dim : dim, nhd ? dim : tokens * dim,
          static_cast<int>(dim)};
}

template <class Args>
StridedAttention common(const Args& args, const Tensor& q) {
  StridedAttention a;
  a.parts[0].q = q;
  a.num_heads = static_cast<int>(q.dim(1));
  a.requests = args.qo_indptr.dim(0) - 1;
  a.qo = args.qo_indptr.template data<int32_t>();
  a.scores = args.scores;
  a.out = args.out;
  a.lse = args.lse;
  return a;
}

void set_table(const KvPageTable& table, const CacheSides& sides, StridedAttention& a) {
  a.kv = table.kv_indptr.data<int32_t>();
  // (Without any page there is nothing to point to, but pages are what kv counts.)
  static constexpr int32_t kNoPages = 0;
  a.pages = table.kv_indices.dim(0) == 0 ? &kNoPages : table.kv_indices.data<int32_t>();
  a.last_page_len = table.kv_last_page_len.data<int32_t>();
  a.page_size = sides.page_size;
  a.kv_heads = sides.kv_heads;
  a.type = sides.type;
}

}  // namespace

std::vector<int64_t> StridedAttention::first_elements() const {
  std::vector<int64_t> at{0};
  for (int64_t s = 0; s < requests; ++s) at.push_back(at.back() + queries(s) * keys(s));
  return at;
}

std::vector<int64_t> StridedAttention::first_bytes() const {
  std::vector<int64_t> at{0};
  for (int64_t s = 0; s < requests; ++s) at.push_back(at.back() + (queries(s) * keys(s) + 7) / 8);
  return at;
}

int64_t StridedAttention::elements() const { return first_elements().back(); }

CacheSides sides_of(const PagedKvCache& cache) {
  const bool joint = cache.kv_cache.rank() > 0, nhd = cache.layout == KvLayout::kNHD;
  const Tensor& k = joint ? cache.kv_cache : cache.k_cache;
  const int first = joint ? 2 : 1;
  const int64_t tokens = k.dim(nhd ? first : first + 1), heads = k.dim(nhd ? first + 1 : first),
                dim = k.dim(first + 2);
  CacheSides sides;
  sides.k = side_of(k, tokens, heads, dim, cache.layout);
  sides.v = joint ? sides.k.from(tokens * heads * dim, size_of(k.dtype()))
                  : side_of(cache.v_cache, tokens, heads, dim, cache.layout);
  sides.pages = k.dim(0);
  sides.page_size = tokens;
  sides.kv_heads = static_cast<int>(heads);
  sides.type = k.dtype();
  return sides;
}

CacheSides sides_of(const MlaCache& cache, int64_t head_dim_ckv) {
  const bool joint = cache.mla_cache.rank() > 0;
  const Tensor& first = joint ? cache.mla_cache : cache.ckv_cache;
  CacheSides sides;
  sides.pages = first.dim(0);
  sides.page_size = first.dim(1);
  sides.type = first.dtype();
  sides.k = side_of(first, sides.page_size, 1, first.dim(2), KvLayout::kNHD);
  sides.k.dim = static_cast<int>(head_dim_ckv);
  if (joint) {
    sides.v = sides.k.from(head_dim_ckv, size_of(first.dtype()));
    sides.v.dim = static_cast<int>(first.dim(2) - head_dim_ckv);
  } else {
    sides.v = side_of(cache.kpe_cache, sides.page_size, 1, cache.kpe_cache.dim(2), KvLayout::kNHD);
  }
  return sides;
}

StridedAttention strided(const ops::AttendRaggedArgs& args) {
  StridedAttention a = common(args, args.q);
  const bool nhd = args.layout == KvLayout::kNHD;
  const auto side = [&](const Tensor& t) {
    return KeySide{t.raw(), 0, nhd ? t.row_stride() : t.dim(2), nhd ? t.dim(2) : t.row_stride(),
                   static_cast<int>(t.dim(2))};
  };
  a.parts[0].k = side(args.k);
  a.v = side(args.v);
  a.kv_heads = static_cast<int>(args.k.dim(nhd ? 1 : 0));
  a.type = args.k.dtype();
  a.kv = args.kv_indptr.data<int32_t>();
  return a;
}

StridedAttention strided(const ops::AttendPagesArgs& args) {
  StridedAttention a = common(args, args.q);
  const CacheSides sides = sides_of(args.cache);
  set_table(args.table, sides, a);
  a.parts[0].k = sides.k;
  a.v = sides.v;
  return a;
}

StridedAttention strided(const ops::AttendLatentArgs& args) {
  StridedAttention a = common(args, args.q_nope);
  const CacheSides sides = sides_of(args.cache, args.q_nope.dim(2));
  set_table(args.table, sides, a);
  a.num_parts = 2;
  a.parts[0].k = a.v = sides.k;
  a.parts[1] = {args.q_pe, sides.v};
  return a;
}

}  // namespace tandem
