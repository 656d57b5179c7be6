#include "runtime/execution/choose_tokens.h"

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

std::vector<proto::SequenceOutput> choose_tokens(Context& ctx, Communicator& comm, Model& model,
                                                 const std::vector<SamplerSequence>& rows,
                                                 const Tensor& hidden) {
  if (comm.size() > 1)
    return sample_sharded(ctx, comm, rows, model.compute_logits_shard(hidden),
                          model.config().vocab_size);
  // Every row is sampled from its logits, in place.
  const Tensor logits = model.compute_logits(hidden);
  std::vector<proto::SequenceOutput> chosen(rows.size());
  const auto width = static_cast<size_t>(logits.dim(1));
  ctx.pool().run(static_cast<int64_t>(rows.size()), [&](int64_t i, int) {
    const auto k = static_cast<size_t>(i);
    chosen[k] = sample(rows[k], {logits.row<float>(i), width});
  });
  return chosen;
}

}  // namespace tandem
