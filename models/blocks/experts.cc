#include "models/blocks/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>

#include "parallel/layers/element_types.h"

namespace tandem {
namespace {

// The router is the same on all ranks, and in f32 on CPUs.
Build router_build(const Build& b) {
  static const std::unique_ptr<Communicator> alone = make_local_communicator();
  Build out{b.ctx, *alone, b.dtype};
  if (b.ctx.on_cpu()) out.dtype = DType::kF32;
  return out;
}

struct Choice {
  int first = 0, second = 0;
  float first_weight = 0, second_weight = 0;
};

Choice choose(std::span<const float> logits, int chosen) {
  const float top = *std::ranges::max_element(logits);
  std::vector<float> probabilities(logits.size());
  float sum = 0;
  for (size_t i = 0; i < logits.size(); ++i) sum += probabilities[i] = std::exp(logits[i] - top);
  for (float& p : probabilities) p /= sum;
  Choice out;
  const auto first = std::ranges::max_element(probabilities) - probabilities.begin();
  out.first = static_cast<int>(first);
  out.first_weight = probabilities[static_cast<size_t>(first)];
  if (chosen == 1) return out;
  out.second = first == 0 ? 1 : 0;
  for (int i = 0; i < std::ssize(logits); ++i)
    if (i != out.first && logits[static_cast<size_t>(i)] > logits[static_cast<size_t>(out.second)])
      out.second = i;
  out.second_weight = probabilities[static_cast<size_t>(out.second)];
  const float both =
      std::max(out.first_weight + out.second_weight, std::numeric_limits<float>::epsilon());
  out.first_weight /= both;
  out.second_weight /= both;
  return out;
}

}  // namespace

Routing route(const Tensor& logits, const ExpertsOptions& options,
              std::span<const int32_t> bounded) {
  const auto count = static_cast<size_t>(logits.dim(1));
  const auto chosen = static_cast<size_t>(options.chosen);
  const int64_t tokens = logits.dim(0);
  std::vector<std::vector<size_t>> of_expert(count);  // slots: token * chosen + i
  std::vector<int32_t> taken(count);
  Routing out;
  out.places.assign(static_cast<size_t>(tokens) * chosen, -1);
  out.factors.assign(static_cast<size_t>(tokens) * chosen, 0.0f);
  size_t range = 0;
  for (int32_t row = 0; row < tokens; ++row) {
    while (range < bounded.size() && row >= bounded[range + 1]) range += 2;
    const bool counts = options.capacity > 0 && range < bounded.size() && row >= bounded[range];
    if (counts && row == bounded[range]) std::ranges::fill(taken, 0);
    const Choice choice = choose({logits.row<float>(row), count}, options.chosen);
    for (size_t i = 0; i < chosen; ++i) {
      const auto expert = static_cast<size_t>(i == 0 ? choice.first : choice.second);
      if (counts && ++taken[expert] > options.capacity) continue;
      const size_t slot = static_cast<size_t>(row) * chosen + i;
      of_expert[expert].push_back(slot);
      out.factors[slot] = options.scale * (i == 0 ? choice.first_weight : choice.second_weight);
    }
  }
  for (const auto& slots : of_expert) {
    for (const size_t slot : slots) {
      out.places[slot] = static_cast<int32_t>(out.rows.size());
      out.rows.push_back(static_cast<int32_t>(slot / chosen));
    }
    out.ends.push_back(static_cast<int32_t>(out.rows.size()));
  }
  return out;
}

Experts::Experts(const Weights& w, const Build& b, int64_t d_model, const FeedForwardOptions& o,
                 const ExpertsOptions& experts)
    : build_(b),
      d_model_(d_model),
      options_(experts),
      router_(w / experts.scope / "router" / "classifier", router_build(b), d_model, experts.count,
              Activation::kNone, experts.router_bias) {
  const Weights all = w / experts.scope / "experts";
  const Build whole = b.without_adapters();  // their rows are the tokens that chose them
  const Range part = shard_range(o.width, b.comm.rank(), b.comm.size());
  for (int i = 0; i < experts.count; ++i) {
    const Weights one = all / ("expert_" + std::to_string(i));
    experts_.push_back(
        {ColumnParallelLinear(one / experts.fc1, whole, d_model, o.width, o.activation, o.bias),
         RowParallelLinear(one / experts.fc2, whole, o.width, d_model, part, o.bias)});
  }
}

Tensor Experts::encode(NormedRows& x, const StepTensors& in) const {
  return forward(x, in.host->encoder_ranges);
}

// A prompt is computed at once in HuggingFace, what follows token by token. (A sequence that is
// recomputed has both in one step.)
Tensor Experts::decode(NormedRows& x, const StepTensors& in) const {
  const AttentionMetadata& m = *in.host;
  std::vector<int32_t> prompts;
  for (size_t i = 0; i < m.num_computed_tokens.size(); ++i)
    if (m.num_computed_tokens[i] == 0)
      prompts.insert(prompts.end(),
                     {m.query_start_loc[i], std::min(m.query_start_loc[i] + m.num_prompt_tokens[i],
                                                     m.query_start_loc[i + 1])});
  return forward(x, prompts);
}

Tensor Experts::forward(NormedRows& x, std::span<const int32_t> bounded) const {
  Context& ctx = build_.ctx;
  const Tensor rows = x.rows();
  const int64_t tokens = rows.dim(0), chosen = options_.chosen;
  const Routing routing = route(to_float(ctx.on_host(router_.forward(rows))), options_, bounded);
  const auto count = static_cast<int64_t>(routing.rows.size());
  Tensor made;
  if (count > 0) {
    const Tensor theirs = ctx.make({count, rows.dim(1)});
    made = ctx.make({count, d_model_});
    ops::gather_rows(ctx, {rows, step_list(ctx, routing.rows), theirs});
    for (size_t i = 0, begin = 0; i < experts_.size(); ++i) {
      const auto end = static_cast<size_t>(routing.ends[i]);
      const auto first = static_cast<int64_t>(begin), last = static_cast<int64_t>(end);
      if (end > begin)
        experts_[i].fc2.write_part(experts_[i].fc1.forward(theirs.rows(first, last)),
                                   made.rows(first, last));
      begin = end;
    }
  }
  const Tensor out = ctx.make({tokens, d_model_});
  ops::combine_rows(ctx, {made, step_list(ctx, routing.places).reshape({tokens, chosen}),
                          step_values(ctx, routing.factors).reshape({tokens, chosen}), out});
  build_.comm.all_reduce(out);
  return out;
}

}  // namespace tandem
