#include "kernels/layouts/layout_call.h"

#include <cmath>
#include <cstring>
#include <set>
#include <vector>

#include "kernels/layouts/layout_checks.h"

namespace tandem {
namespace {

// The tensors of a call, each taken once or not at all.
class CallArguments {
 public:
  explicit CallArguments(const LayoutCall& call) : call_(call) {}

  // Absent: an empty one, which the ops refuse where it is needed.
  Tensor take(const std::string& name) {
    taken_.insert(name);
    const auto found = call_.tensors.find(name);
    return found == call_.tensors.end() ? Tensor() : found->second;
  }
  bool has(const std::string& name) const { return call_.tensors.count(name) > 0; }
  KvPageTable table(const std::string& prefix = {}) {
    return {take(prefix + "kv_indptr"), take(prefix + "kv_indices"),
            take(prefix + "kv_last_page_len")};
  }
  PagedKvCache cache() {
    return {take("kv_cache"), take("k_cache"), take("v_cache"), call_.layout};
  }
  MlaCache latent() { return {take("mla_cache"), take("ckv_cache"), take("kpe_cache")}; }

  // `q`: whose last dimension gives the scale, if none is given.
  float scale(const Tensor& q) const {
    if (call_.sm_scale) return *call_.sm_scale;
    return q.rank() < 3 ? 1.0f : 1.0f / std::sqrt(static_cast<float>(q.dim(2)));
  }
  ScoreRules scores(float scale) {
    ScoreRules rules{scale, call_.logits_soft_cap, call_.causal};
    rules.custom_mask = take("custom_mask");
    rules.packed_custom_mask = take("packed_custom_mask");
    rules.mask_indptr = take("mask_indptr");
    rules.bias = take("bias");
    return rules;
  }

  // Nothing is left over.
  void check_end() const {
    for (const auto& [name, tensor] : call_.tensors)
      if (taken_.count(name) == 0) layouts::refuse(name, "is no argument of " + call_.op);
  }

 private:
  const LayoutCall& call_;
  std::set<std::string> taken_;
};

void copy_integers(const std::string& name, const Tensor& from, const Tensor& to) {
  layouts::check_integers(name, to, from.dim(0));
  if (from.size() > 0) std::memcpy(to.raw(), from.raw(), from.bytes());
}

void attend_ragged(Context& ctx, const LayoutCall& call, CallArguments& given) {
  ops::AttendRaggedArgs args;
  args.q = given.take("q");
  args.k = given.take("k");
  args.v = given.take("v");
  args.qo_indptr = given.take("qo_indptr");
  args.kv_indptr = given.take("kv_indptr");
  args.layout = call.layout;
  args.scores = given.scores(given.scale(args.q));
  args.out = given.take("out");
  args.lse = given.take("lse");
  given.check_end();
  ops::attend_ragged(ctx, args);
}

void attend_pages(Context& ctx, CallArguments& given) {
  ops::AttendPagesArgs args;
  args.q = given.take("q");
  args.qo_indptr = given.take("qo_indptr");
  args.cache = given.cache();
  args.table = given.table();
  args.scores = given.scores(given.scale(args.q));
  args.out = given.take("out");
  args.lse = given.take("lse");
  given.check_end();
  ops::attend_pages(ctx, args);
}

void attend_latent(Context& ctx, const LayoutCall& call, CallArguments& given) {
  // (Of the widths before the compression, which nothing here tells.)
  if (!call.sm_scale) layouts::refuse("sm_scale", "is absent: latent attention must be given one");
  ops::AttendLatentArgs args;
  args.q_nope = given.take("q_nope");
  args.q_pe = given.take("q_pe");
  args.qo_indptr = given.take("qo_indptr");
  args.cache = given.latent();
  args.table = given.table();
  args.scores = given.scores(*call.sm_scale);
  args.out = given.take("out");
  args.lse = given.take("lse");
  given.check_end();
  ops::attend_latent(ctx, args);
}

void attend_cascade(Context& ctx, const LayoutCall& call, CallArguments& given) {
  std::vector<ops::CascadeLevel> levels;
  for (;;) {
    const std::string prefix = "level" + std::to_string(levels.size()) + ".";
    if (!given.has(prefix + "qo_indptr")) break;
    levels.push_back({given.take(prefix + "qo_indptr"), given.table(prefix)});
  }
  ops::AttendCascadeArgs args;
  args.q = given.take("q");
  args.cache = given.cache();
  args.levels = levels;
  args.scale = given.scale(args.q);
  args.soft_cap = call.logits_soft_cap;
  args.causal = call.causal;
  args.out = given.take("out");
  args.lse = given.take("lse");
  given.check_end();
  ops::attend_cascade(ctx, args);
}

void merge_states(Context& ctx, CallArguments& given) {
  const ops::MergeStatesArgs args{given.take("v"), given.take("s"), given.take("out"),
                                  given.take("lse")};
  given.check_end();
  ops::merge_states(ctx, args);
}

void append_pages(Context& ctx, CallArguments& given) {
  const ops::AppendPagesArgs args{given.take("append_key"),
                                  given.take("append_value"),
                                  given.take("batch_indices"),
                                  given.take("positions"),
                                  given.cache(),
                                  given.table()};
  given.check_end();
  ops::append_pages(ctx, args);
}

void append_latent(Context& ctx, CallArguments& given) {
  const ops::AppendLatentArgs args{
      given.take("append_ckv"), given.take("append_kpe"), given.take("batch_indices"),
      given.take("positions"),  given.latent(),           given.table()};
  given.check_end();
  ops::append_latent(ctx, args);
}

void number_positions(CallArguments& given) {
  const Tensor indptr = given.take("append_indptr"), lengths = given.take("seq_lens"),
               batch = given.take("batch_indices"), positions = given.take("positions");
  given.check_end();
  const BatchPositions made = batch_indices_positions(indptr, lengths);
  copy_integers("batch_indices", made.batch_indices, batch);
  copy_integers("positions", made.positions, positions);
}

void pack_bits(Context& ctx, bool segmented, CallArguments& given) {
  ops::PackBitsArgs args;
  args.x = given.take("x");
  if (segmented) args.indptr = given.take("indptr");
  args.packed = given.take("packed");
  const Tensor packed_indptr = segmented ? given.take("packed_indptr") : Tensor();
  given.check_end();
  if (segmented && args.indptr.rank() == 0) layouts::refuse("indptr", "is absent");
  ops::pack_bits(ctx, args);
  if (packed_indptr.rank() > 0)
    copy_integers("packed_indptr", packed_indptr_of(args.indptr), packed_indptr);
}

}  // namespace

void run_layout_call(Context& ctx, const LayoutCall& call) {
  CallArguments given(call);
  if (call.op == "attention_ragged") return attend_ragged(ctx, call, given);
  if (call.op == "attention_paged") return attend_pages(ctx, given);
  if (call.op == "attention_mla") return attend_latent(ctx, call, given);
  if (call.op == "attention_cascade") return attend_cascade(ctx, call, given);
  if (call.op == "merge_states") return merge_states(ctx, given);
  if (call.op == "append_paged_kv_cache") return append_pages(ctx, given);
  if (call.op == "append_paged_mla_kv_cache") return append_latent(ctx, given);
  if (call.op == "get_batch_indices_positions") return number_positions(given);
  if (call.op == "packbits") return pack_bits(ctx, false, given);
  if (call.op == "segment_packbits") return pack_bits(ctx, true, given);
  layouts::refuse("op", "\"" + call.op + "\" is unknown");
}

}  // namespace tandem
