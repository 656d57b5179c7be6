#include "kernels/layouts/layout_checks.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace tandem::layouts {
namespace {

std::string shown(const Shape& dims) {
  std::string out;
  for (const int64_t d : dims)
    out += (out.empty() ? "[" : ", ") + (d < 0 ? std::string("any") : std::to_string(d));
  return out + "]";
}

// A matrix's width that another argument has too.
void check_width(const std::string& name, int64_t width, const std::string& cache, int64_t stored) {
  if (width != stored)
    refuse(name,
           "is " + std::to_string(width) + " wide, " + cache + " is " + std::to_string(stored));
}

void check_mask_offsets(const ScoreRules& rules, const std::vector<int64_t>& want) {
  const Tensor& t = rules.mask_indptr;
  if (t.rank() == 0) return;
  const auto count = static_cast<int64_t>(want.size());
  const int32_t* at = check_integers("mask_indptr", t, count);
  for (int64_t i = 0; i < count; ++i)
    if (at[i] != want[static_cast<size_t>(i)])
      refuse("mask_indptr", "is " + std::to_string(at[i]) + at_index(i) +
                                ", where qo_len x kv_len add up to " +
                                std::to_string(want[static_cast<size_t>(i)]));
}

void check_total(const Context& ctx, const std::string& name, const Tensor& t, int64_t total,
                 DType type) {
  if (t.rank() != 1) check_dims(name, t, {total});
  if (t.dim(0) != total)
    refuse(name, "has " + std::to_string(t.dim(0)) + " elements, qo_len x kv_len add up to " +
                     std::to_string(total));
  check_data(ctx, name, t, {total}, {type});
}

}  // namespace

void refuse(const std::string& argument, const std::string& why) {
  throw invalid_request(argument, why);
}

std::string at_index(int64_t i) { return " at index " + std::to_string(i); }

void check_dims(const std::string& name, const Tensor& t, const Shape& dims) {
  bool same = t.rank() == static_cast<int>(dims.size());
  for (int i = 0; same && i < t.rank(); ++i) {
    const int64_t want = dims[static_cast<size_t>(i)];
    same = t.dim(i) >= 0 && (want < 0 || t.dim(i) == want);
  }
  if (same) return;
  if (t.rank() == 0) refuse(name, "is absent; its shape is " + shown(dims));
  refuse(name, "is " + to_string(t.shape()) + "; " + shown(dims) + " is asked for");
}

void check_type(const std::string& name, const Tensor& t, std::initializer_list<DType> types) {
  if (std::find(types.begin(), types.end(), t.dtype()) != types.end()) return;
  std::string want;
  for (const DType type : types) want += (want.empty() ? "" : " or ") + std::string(name_of(type));
  refuse(name, std::string("is ") + name_of(t.dtype()) + "; " + want + " is asked for");
}

void check_data(const Context& ctx, const std::string& name, const Tensor& t, const Shape& dims,
                std::initializer_list<DType> types) {
  check_dims(name, t, dims);
  check_type(name, t, types);
  if (t.size() > 0 && t.device() != ctx.device())
    refuse(name, "does not lie on the device that computes");
}

void check_rows(const Context& ctx, const std::string& name, const Tensor& t, const Shape& dims) {
  check_data(ctx, name, t, dims, {ctx.activations()});
}

void check_widths(const std::string& name, const Tensor& t, int first) {
  for (int i = first; i < t.rank(); ++i)
    if (t.dim(i) < 1) refuse(name, "is " + to_string(t.shape()));
  if (t.dim(t.rank() - 1) > kMostHeadDim)
    refuse(name, "has heads of " + std::to_string(t.dim(t.rank() - 1)) + "; " +
                     std::to_string(kMostHeadDim) + " are the most");
}

void check_dense(const std::string& name, const Tensor& t) {
  if (!t.contiguous()) refuse(name, "has gaps between its rows");
}

void check_keys(const Context& ctx, const std::string& name, const Tensor& t, const Shape& dims) {
  if (ctx.on_cpu())
    check_data(ctx, name, t, dims, {DType::kF32, DType::kBF16});
  else
    check_rows(ctx, name, t, dims);
}

const int32_t* check_integers(const std::string& name, const Tensor& t, int64_t size) {
  check_dims(name, t, {size});
  check_type(name, t, {DType::kI32});
  check_dense(name, t);
  if (t.size() > 0 && t.device() != Device::kCpu)
    refuse(name, "lies on a device; the host reads it");
  return t.data<int32_t>();
}

int64_t check_offsets(const std::string& name, const Tensor& t) {
  const int32_t* p = check_integers(name, t, -1);
  if (t.dim(0) == 0) refuse(name, "is empty: it has one element more than there are requests");
  if (p[0] != 0) refuse(name, "begins with " + std::to_string(p[0]) + ", not 0");
  for (int64_t i = 1; i < t.dim(0); ++i)
    if (p[i] < p[i - 1])
      refuse(name, "falls from " + std::to_string(p[i - 1]) + " to " + std::to_string(p[i]) +
                       at_index(i));
  return t.dim(0) - 1;
}

void check_end(const std::string& name, const Tensor& t, int64_t end, const std::string& of) {
  const int64_t last = t.data<int32_t>()[t.dim(0) - 1];
  if (last != end)
    refuse(name, "ends at " + std::to_string(last) + ", " + of + " has " + std::to_string(end));
}

void check_requests(const std::string& name, int64_t found, int64_t requests) {
  if (found != requests)
    refuse(name, "is of " + std::to_string(found) + " requests, qo_indptr of " +
                     std::to_string(requests));
}

CacheSides check_cache(const Context& ctx, const PagedKvCache& cache) {
  const bool joint = cache.kv_cache.rank() > 0;
  if (joint) {
    if (cache.k_cache.rank() > 0 || cache.v_cache.rank() > 0)
      refuse("kv_cache", "stands beside k_cache or v_cache: it is one tensor or a pair");
    check_keys(ctx, "kv_cache", cache.kv_cache, {-1, 2, -1, -1, -1});
  } else {
    check_keys(ctx, "k_cache", cache.k_cache, {-1, -1, -1, -1});
    check_keys(ctx, "v_cache", cache.v_cache, cache.k_cache.shape());
    check_type("v_cache", cache.v_cache, {cache.k_cache.dtype()});
  }
  const Tensor& k = joint ? cache.kv_cache : cache.k_cache;
  check_widths(joint ? "kv_cache" : "k_cache", k, 1);
  return sides_of(cache);
}

CacheSides check_cache(const Context& ctx, const MlaCache& cache, const LatentWidths& widths) {
  if (cache.mla_cache.rank() > 0) {
    if (cache.ckv_cache.rank() > 0 || cache.kpe_cache.rank() > 0)
      refuse("mla_cache", "stands beside ckv_cache or kpe_cache: it is one tensor or a pair");
    check_keys(ctx, "mla_cache", cache.mla_cache, {-1, -1, -1});
    if (cache.mla_cache.dim(2) != widths.ckv + widths.kpe)
      refuse("mla_cache", "is " + std::to_string(cache.mla_cache.dim(2)) + " wide, " +
                              widths.ckv_name + " and " + widths.kpe_name + " are " +
                              std::to_string(widths.ckv) + " and " + std::to_string(widths.kpe));
  } else {
    const Tensor &ckv = cache.ckv_cache, &kpe = cache.kpe_cache;
    check_keys(ctx, "ckv_cache", ckv, {-1, -1, -1});
    check_keys(ctx, "kpe_cache", kpe, {ckv.dim(0), ckv.dim(1), -1});
    check_type("kpe_cache", kpe, {ckv.dtype()});
    check_width(widths.ckv_name, widths.ckv, "ckv_cache", ckv.dim(2));
    check_width(widths.kpe_name, widths.kpe, "kpe_cache", kpe.dim(2));
  }
  const CacheSides sides = sides_of(cache, widths.ckv);
  if (sides.page_size < 1)
    refuse(cache.mla_cache.rank() > 0 ? "mla_cache" : "ckv_cache", "has pages of no token");
  return sides;
}

int64_t check_table(const KvPageTable& table, const CacheSides& sides, const std::string& prefix) {
  const int64_t requests = check_offsets(prefix + "kv_indptr", table.kv_indptr);
  const int32_t* pages = check_integers(prefix + "kv_indices", table.kv_indices, -1);
  const int64_t count = table.kv_indices.dim(0);
  const int32_t* at = table.kv_indptr.data<int32_t>();
  if (at[requests] != count)
    refuse(prefix + "kv_indices", "has " + std::to_string(count) + " entries, " + prefix +
                                      "kv_indptr ends at " + std::to_string(at[requests]));
  for (int64_t i = 0; i < count; ++i)
    if (pages[i] < 0 || pages[i] >= sides.pages)
      refuse(prefix + "kv_indices", "has page " + std::to_string(pages[i]) + at_index(i) +
                                        "; there are " + std::to_string(sides.pages));
  const std::string last_name = prefix + "kv_last_page_len";
  const int32_t* last = check_integers(last_name, table.kv_last_page_len, -1);
  if (table.kv_last_page_len.dim(0) != requests)
    refuse(last_name, "has " + std::to_string(table.kv_last_page_len.dim(0)) + " entries, " +
                          prefix + "kv_indptr has " + std::to_string(requests) + " requests");
  for (int64_t i = 0; i < requests; ++i) {
    const int64_t held = at[i + 1] - at[i];
    if (last[i] < (held > 0 ? 1 : 0) || last[i] > sides.page_size)
      refuse(last_name, "is " + std::to_string(last[i]) + at_index(i) + ", of " +
                            std::to_string(held) + " pages of " + std::to_string(sides.page_size));
    if (held * sides.page_size > INT32_MAX)
      refuse(prefix + "kv_indptr",
             "gives request " + std::to_string(i) + " more tokens than fit int32");
  }
  return requests;
}

void check_scores(const Context& ctx, const StridedAttention& attention) {
  const ScoreRules& rules = attention.scores;
  if (!std::isfinite(rules.scale)) refuse("sm_scale", "is no number");
  if (!(rules.soft_cap >= 0) || std::isinf(rules.soft_cap))
    refuse("logits_soft_cap", "is no number from 0 on");
  const bool packed = rules.packed_custom_mask.rank() > 0, plain = rules.custom_mask.rank() > 0;
  if (packed && plain) refuse("custom_mask", "stands beside packed_custom_mask");
  const bool bias = rules.bias.rank() > 0;
  if (!packed && !plain && !bias) {
    if (rules.mask_indptr.rank() > 0) refuse("mask_indptr", "is of no mask and no bias");
    return;
  }
  const int64_t total = attention.elements();
  if (total > INT32_MAX)
    refuse("mask_indptr", "would end at " + std::to_string(total) + ", which does not fit int32");
  check_mask_offsets(rules, packed ? attention.first_bytes() : attention.first_elements());
  if (plain) {
    check_total(ctx, "custom_mask", rules.custom_mask, total, DType::kU8);
    check_dense("custom_mask", rules.custom_mask);
  }
  if (packed) {
    const int64_t bytes = attention.first_bytes().back();
    check_dims("packed_custom_mask", rules.packed_custom_mask, {-1});
    if (rules.packed_custom_mask.dim(0) != bytes)
      refuse("packed_custom_mask", "has " + std::to_string(rules.packed_custom_mask.dim(0)) +
                                       " bytes; " + std::to_string(bytes) +
                                       " are needed, for each request begins at one");
    check_data(ctx, "packed_custom_mask", rules.packed_custom_mask, {bytes}, {DType::kU8});
    check_dense("packed_custom_mask", rules.packed_custom_mask);
  }
  if (!bias) return;
  if (rules.bias.rank() == 2)
    check_data(ctx, "bias", rules.bias, {attention.num_heads, total}, {DType::kF32});
  else
    check_total(ctx, "bias", rules.bias, total, DType::kF32);
}

void check_outputs(const Context& ctx, const Tensor& out, const Tensor& lse, int64_t rows,
                   int64_t heads, int64_t head_dim) {
  check_rows(ctx, "out", out, {rows, heads, head_dim});
  if (lse.rank() > 0) check_data(ctx, "lse", lse, {rows, heads}, {DType::kF32});
}

}  // namespace tandem::layouts
