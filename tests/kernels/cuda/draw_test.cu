// draw and substitute_ids of the CUDA device against the CPU's, on rows with ties, infinities and
// NaNs.
#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::DeviceMatrix;
using testing::indices;
using testing::Random;
using testing::to_device;

Tensor logits_to_draw(Random& random, int64_t rows, int64_t size) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const Tensor logits = random.matrix(rows, size, 3.0f);
  for (int64_t i = 0; i < rows; ++i) {
    float* row = logits.row<float>(i);
    const int64_t kind = random.integer(0, 9);
    if (kind == 0) std::fill_n(row, size, -kInf);
    if (kind <= 3)  // ties
      for (int64_t j = 0; j < size; ++j) row[j] = static_cast<float>(random.integer(-2, 2));
    if (kind == 4) row[random.integer(0, size - 1)] = random.integer(0, 1) ? kInf : std::nanf("");
    if (kind == 5)
      for (int64_t j = 0; j < size; ++j)
        if (random.integer(0, 2) > 0) row[j] = -kInf;
    if (kind == 6) row[random.integer(0, size - 1)] += 200.0f;  // nothing beside it
  }
  return logits;
}

ops::DrawRule random_rule(Random& random, int64_t size) {
  ops::DrawRule rule;
  rule.draws = random.integer(0, 7) > 0;
  rule.temperature = random.pick<float>({1.0f, 1.0f, 0.7f, 2.5f, 0.01f});
  rule.top_k = random.integer(0, 1) ? static_cast<int32_t>(random.integer(1, 2 * size)) : 0;
  if (random.integer(0, 3) == 0) rule.top_k = static_cast<int32_t>(random.integer(1, 5));
  rule.tail = random.pick<float>({0.0f, 0.0f, 0.1f, 0.5f, 0.999f, 1.0f});
  rule.min_p = random.pick<float>({0.0f, 0.0f, 0.05f, 1.0f});
  rule.uniform_high = static_cast<uint32_t>(random.integer(0, (1 << 21) - 1));
  rule.uniform_low = static_cast<uint32_t>(random.integer(0, 0xffffffff));
  if (random.integer(0, 9) == 0) rule.uniform_high = rule.uniform_low = 0;
  if (random.integer(0, 9) == 0) {
    rule.uniform_high = (1u << 21) - 1;
    rule.uniform_low = 0xffffffff;
  }
  return rule;
}

Tensor rules_of(const std::vector<ops::DrawRule>& rules) {
  const Tensor out({std::ssize(rules), ops::kDrawRuleInts}, DType::kI32);
  std::memcpy(out.raw(), rules.data(), out.bytes());
  return out;
}

constexpr int kBest = 3;

struct Answer {
  Tensor ids, values, best;
  explicit Answer(int64_t rows)
      : ids({rows, kBest}, DType::kI32),
        values({rows, kBest}, DType::kF32),
        best({rows + 1}, DType::kI32) {
    std::fill_n(ids.data<int32_t>(), ids.size(), -7);
    std::fill_n(values.data<float>(), values.size(), -7.0f);
    std::fill_n(best.data<int32_t>(), best.size(), -7);
  }
};

Answer cpu_answer(Context& cpu, const Tensor& logits, const std::vector<ops::DrawRule>& rules) {
  Answer out(logits.dim(0));
  ops::draw(cpu, {logits, rules_of(rules), out.ids, out.values, out.best});
  return out;
}

// What other rounding may lead to: the device adds fixed-point numbers.
std::set<int32_t> accepted(Context& cpu, const Tensor& row, const ops::DrawRule& rule) {
  std::set<int32_t> out;
  for (const double moved : {0.0, -1e-5, 1e-5})
    for (const float tail : {1.0f, 1.00001f, 0.99999f})
      for (const float min_p : {1.0f, 0.99999f}) {
        ops::DrawRule other = rule;
        const double uniform = std::clamp(
            (rule.uniform_high * 0x1p32 + rule.uniform_low) * 0x1p-53 + moved, 0.0, 1.0 - 0x1p-53);
        const auto bits = static_cast<uint64_t>(uniform * 0x1p53);
        other.uniform_high = static_cast<uint32_t>(bits >> 32);
        other.uniform_low = static_cast<uint32_t>(bits);
        other.tail = std::min(rule.tail * tail, 1.0f);
        other.min_p = rule.min_p * min_p;
        out.insert(cpu_answer(cpu, row, {other}).ids.data<int32_t>()[0]);
      }
  return out;
}

TEST(CudaDraw, IsTheCpus) {
  Random random;
  Context cpu(1), ctx = testing::cuda_context(DType::kF32);
  for (const int64_t size : {1, 2, 31, 512, 513, 1000, 4099, 50265})
    for (int round = 0; round < (size > 5000 ? 2 : 8); ++round) {
      const int64_t rows = random.integer(1, 6);
      const Tensor logits = logits_to_draw(random, rows, size);
      std::vector<ops::DrawRule> rules;
      for (int64_t i = 0; i < rows; ++i) rules.push_back(random_rule(random, size));
      const Answer want = cpu_answer(cpu, logits, rules), before(rows);
      const DeviceMatrix there(ctx, random, logits, DType::kF32);
      const Tensor ids = to_device(ctx, before.ids), values = to_device(ctx, before.values),
                   best = to_device(ctx, before.best);
      ops::draw(ctx, {there.tensor(), to_device(ctx, rules_of(rules)), ids, values, best});
      const Tensor got_ids = ctx.on_host(ids), got_values = ctx.on_host(values),
                   got_best = ctx.on_host(best);
      for (int64_t i = 0; i < rows; ++i) {
        SCOPED_TRACE("row " + std::to_string(i) + " of " + std::to_string(size));
        const int32_t id = got_ids.row<int32_t>(i)[0];
        EXPECT_TRUE(accepted(cpu, logits.rows(i, i + 1), rules[static_cast<size_t>(i)]).count(id))
            << id << ", not " << want.ids.row<int32_t>(i)[0];
        EXPECT_EQ(got_best.data<int32_t>()[i], id);
        if (id >= 0) {
          EXPECT_EQ(got_values.row<float>(i)[0], logits.row<float>(i)[id]);
        }
        for (int n = 1; n < kBest; ++n) EXPECT_EQ(got_ids.row<int32_t>(i)[n], -7);
      }
      EXPECT_EQ(got_best.data<int32_t>()[rows], -7);
    }
}

TEST(CudaSubstituteIds, IsTheCpus) {
  Random random;
  Context cpu(1), ctx = testing::cuda_context(DType::kF16);
  for (const int64_t size : {1, 5, 128, 129, 1000}) {
    std::vector<int32_t> ids, earlier;
    for (int64_t i = 0; i < size; ++i) ids.push_back(static_cast<int32_t>(random.integer(-40, 40)));
    for (int i = 0; i < 40; ++i) earlier.push_back(1000 + i);
    const Tensor want = indices(ids), there = to_device(ctx, want), known = indices(earlier);
    const std::vector<int32_t> places(static_cast<size_t>(size), 7);
    const Tensor positions = indices(places), positions_there = to_device(ctx, positions);
    const bool given = random.integer(0, 1) == 1;
    const int32_t padding = given ? 1003 : -1;
    ops::substitute_ids(cpu, {want, known, given ? positions : Tensor(), padding});
    ops::substitute_ids(
        ctx, {there, to_device(ctx, known), given ? positions_there : Tensor(), padding});
    const Tensor got = ctx.on_host(there), got_positions = ctx.on_host(positions_there);
    for (int64_t i = 0; i < size; ++i) {
      EXPECT_EQ(got.data<int32_t>()[i], want.data<int32_t>()[i]) << i;
      const int32_t expected = given && ids[static_cast<size_t>(i)] == -4 ? -1 : 7;
      EXPECT_EQ(positions.data<int32_t>()[i], expected) << i;
      EXPECT_EQ(got_positions.data<int32_t>()[i], expected) << i;
    }
  }
}

}  // namespace
}  // namespace tandem
