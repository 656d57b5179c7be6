#include "runtime/execution/choice/choose_tokens.h"

#include <algorithm>
#include <numeric>

#include "runtime/sampling/sampler.h"
#include "runtime/sampling/sharded_sampler.h"

namespace tandem {

Tensor rows_of(Context& ctx, const Tensor& hidden, const std::vector<int32_t>& rows) {
  const Tensor chosen = ctx.make({static_cast<int64_t>(rows.size()), hidden.dim(1)});
  Tensor indices = Tensor::borrow(rows);
  if (!ctx.on_cpu()) {
    indices = ctx.make(indices.shape(), DType::kI32);
    ctx.backend().copy_in(Tensor::borrow(rows), indices);
  }
  ops::gather_rows(ctx, {hidden, indices, chosen});
  return chosen;
}

namespace {

// Greedy rows of which nobody wants more than the token and its log-probability: what sample()
// would say, bit for bit.
std::vector<proto::SequenceOutput> choose_best(Context& ctx, Model& model, const Tensor& hidden) {
  const int64_t rows = hidden.dim(0);
  std::vector<int32_t> all(static_cast<size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  const Tensor log_sums = ctx.make({rows}), values = ctx.make({rows, 1}),
               ids = ctx.make({rows, 1}, DType::kI32);
  model.take_best(hidden, {nullptr, {}, Tensor::borrow(all), {}, log_sums, ids, values});
  std::vector<proto::SequenceOutput> chosen(all.size());
  for (size_t i = 0; i < chosen.size(); ++i) {
    chosen[i].set_token_id(ids.data<int32_t>()[i]);
    chosen[i].set_logprob(values.data<float>()[i] - log_sums.data<float>()[i]);
  }
  return chosen;
}

}  // namespace

std::vector<proto::SequenceOutput> choose_tokens(Context& ctx, Communicator& comm, Model& model,
                                                 const std::vector<SamplerSequence>& rows,
                                                 const Tensor& hidden) {
  if (ctx.on_cpu() && comm.size() > 1)
    return sample_sharded(ctx, comm, rows, model.compute_logits_shard(hidden),
                          model.config().vocab_size);
  if (ctx.on_cpu() && std::none_of(rows.begin(), rows.end(), needs_logits) &&
      model.takes_best(hidden.dim(0)))
    return choose_best(ctx, model, hidden);
  // Every row is sampled from its logits, in place.
  const Tensor logits = ctx.on_host(model.compute_logits(hidden));
  std::vector<proto::SequenceOutput> chosen(rows.size());
  const auto width = static_cast<size_t>(logits.dim(1));
  ctx.pool().run(static_cast<int64_t>(rows.size()), [&](int64_t i, int) {
    const auto k = static_cast<size_t>(i);
    chosen[k] = sample(rows[k], {logits.row<float>(i), width});
  });
  return chosen;
}

}  // namespace tandem
