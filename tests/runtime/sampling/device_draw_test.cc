// Draws of the CPU's op, which devices are compared with, against the host's sampler: the same
// tokens.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/sampling_ops.h"
#include "runtime/sampling/philox.h"
#include "runtime/sampling/sampler.h"

namespace tandem::device_draw_test {
namespace {

proto::SamplingParams random_params(std::mt19937& rng) {
  const auto below = [&](uint32_t n) { return rng() % n; };
  proto::SamplingParams p;
  p.set_do_sample(true);
  p.set_num_beams(1);
  p.set_seed(rng());
  p.set_temperature(0.5 + 0.1 * below(12));
  p.set_top_p(below(2) ? 1.0 : 0.5 + 0.04 * below(12));
  if (below(2)) p.set_top_k(static_cast<int32_t>(1 + below(50)));
  if (below(2)) p.set_min_p(0.01 * below(20));
  return p;
}

int32_t drawn_by_the_op(const proto::SamplingParams& p, std::vector<float> logits) {
  ops::DrawRule rule;
  rule.draws = 1;
  rule.temperature = static_cast<float>(p.temperature());
  rule.top_k = p.top_k();
  if (p.top_p() < 1.0) rule.tail = static_cast<float>(1.0 - p.top_p());
  rule.min_p = static_cast<float>(p.min_p());
  const auto bits = static_cast<uint64_t>(uniform_draw(p.seed(), 0, 0) * 0x1p53);
  rule.uniform_high = static_cast<uint32_t>(bits >> 32);
  rule.uniform_low = static_cast<uint32_t>(bits);
  Context ctx(1);
  std::vector<int32_t> words(ops::kDrawRuleInts);
  std::memcpy(words.data(), &rule, sizeof rule);
  const Tensor ids({1, 1}, DType::kI32), values({1, 1}, DType::kF32);
  ids.data<int32_t>()[0] = -1;
  const auto size = static_cast<int64_t>(logits.size());
  ops::draw(ctx, {Tensor::borrow(logits).reshape({1, size}),
                  Tensor::borrow(words).reshape({1, ops::kDrawRuleInts}), ids, values});
  return ids.data<int32_t>()[0];
}

TEST(Draw, OfTheOpIsTheSamplers) {
  std::mt19937 rng(7);
  constexpr int kRows = 3000;
  int different = 0;
  for (int i = 0; i < kRows; ++i) {
    std::vector<float> logits(std::vector<size_t>{3, 40, 700}[rng() % 3]);
    std::normal_distribution<float> normal(0, 3);
    for (float& x : logits) x = normal(rng);
    const proto::SamplingParams params = random_params(rng);
    SamplerSequence sequence;
    sequence.params = &params;
    std::vector<float> row = logits;
    different += sample(sequence, row).token_id() != drawn_by_the_op(params, logits);
  }
  EXPECT_EQ(different, 0);
}

}  // namespace
}  // namespace tandem::device_draw_test
