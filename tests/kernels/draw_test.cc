// The CPU's draw, which devices are compared with, against HuggingFace's warpers written out in
// double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/sampling_ops.h"

namespace tandem::draw_test {
namespace {

constexpr double kSlack = 1e-6;  // of what single precision loses

struct Warped {
  std::vector<double> probability;  // 0: masked
  bool close = false;               // a threshold that rounding may cross
};

Warped warp(const std::vector<float>& logits, const ops::DrawRule& rule) {
  const size_t n = logits.size();
  std::vector<double> x;
  for (const float l : logits) x.push_back(static_cast<double>(l / rule.temperature));
  std::vector<size_t> order(n);
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] < x[b]; });
  const double top = x[order.back()];
  std::vector<bool> kept(n, true);
  if (rule.top_k > 0 && static_cast<size_t>(rule.top_k) < n) {
    const double least = x[order[n - static_cast<size_t>(rule.top_k)]];
    for (size_t i = 0; i < n; ++i) kept[i] = x[i] >= least;
  }
  Warped out;
  const auto softmax = [&] {
    std::vector<double> p(n);
    double sum = 0;
    for (size_t i = 0; i < n; ++i) sum += p[i] = kept[i] ? std::exp(x[i] - top) : 0;
    for (double& e : p) e /= sum;
    return p;
  };
  if (rule.tail > 0) {
    const std::vector<double> p = softmax();
    double sum = 0;
    for (size_t i = 0; i + 1 < n; ++i) {
      if (!kept[order[i]]) continue;
      sum += p[order[i]];
      out.close = out.close || (std::abs(sum - rule.tail) < kSlack && p[order[i]] > 0);
      if (sum <= rule.tail) kept[order[i]] = false;
    }
  }
  for (size_t i = 0; i < n; ++i) {
    const double relative = std::exp(x[i] - top);
    out.close =
        out.close || (rule.min_p > 0 && std::abs(relative - rule.min_p) < kSlack && relative < 1);
    kept[i] = kept[i] && relative >= rule.min_p;
  }
  out.probability = softmax();
  return out;
}

TEST(Draw, IsHuggingFaces) {
  const unsigned seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  std::mt19937 engine(seed);
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(engine);
  };
  Context ctx(1);
  int compared = 0;
  for (int round = 0; round < 3000; ++round) {
    const int n = integer(1, 60);
    std::vector<float> row;
    for (int i = 0; i < n; ++i)
      row.push_back(round % 3 ? std::normal_distribution<float>(0, 2)(engine)
                              : static_cast<float>(integer(-2, 2)));
    if (round % 5 == 0)
      for (int i = 1; i < n; i += 2)
        row[static_cast<size_t>(i)] = -std::numeric_limits<float>::infinity();
    ops::DrawRule rule;
    rule.draws = 1;
    rule.temperature = std::vector<float>{1.0f, 0.5f, 3.0f}[static_cast<size_t>(integer(0, 2))];
    rule.top_k = integer(0, 1) * integer(1, 40);
    rule.tail = std::vector<float>{0.0f, 0.05f, 0.3f, 0.9f}[static_cast<size_t>(integer(0, 3))];
    rule.min_p = std::vector<float>{0.0f, 0.1f, 0.7f}[static_cast<size_t>(integer(0, 2))];
    const double uniform = std::uniform_real_distribution<double>(0, 1)(engine);
    const auto bits = static_cast<uint64_t>(uniform * 0x1p53);
    rule.uniform_high = static_cast<uint32_t>(bits >> 32);
    rule.uniform_low = static_cast<uint32_t>(bits);
    const Warped want = warp(row, rule);
    if (want.close) continue;

    Tensor logits = Tensor::borrow(row).reshape({1, n});
    const Tensor rules({1, ops::kDrawRuleInts}, DType::kI32), ids({1, 1}, DType::kI32),
        values({1, 1}, DType::kF32);
    std::memcpy(rules.raw(), &rule, sizeof(rule));
    ops::draw(ctx, {logits, rules, ids, values});
    const int32_t id = ids.data<int32_t>()[0];
    ASSERT_TRUE(id >= 0 && id < n);
    EXPECT_EQ(values.data<float>()[0], row[static_cast<size_t>(id)]);
    double below = 0;
    for (int32_t i = 0; i < id; ++i) below += want.probability[static_cast<size_t>(i)];
    const double own = want.probability[static_cast<size_t>(id)];
    EXPECT_GT(own, 0) << "masked";
    EXPECT_LE(below, uniform + kSlack);
    EXPECT_GE(below + own, uniform - kSlack);
    ++compared;
  }
  EXPECT_GT(compared, 2000);
}

// One that does not draw, and ones without a distribution, keep what select() chose.
TEST(Draw, LeavesRowsAlone) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  std::vector<float> rows = {1, 2, -kInf, -kInf, 0, std::nanf(""), kInf, 0};
  std::vector<ops::DrawRule> rules(4);
  for (size_t i = 1; i < 4; ++i) rules[i].draws = 1;
  const Tensor there({4, ops::kDrawRuleInts}, DType::kI32), ids({4, 1}, DType::kI32),
      values({4, 1}, DType::kF32);
  std::memcpy(there.raw(), rules.data(), there.bytes());
  std::fill_n(ids.data<int32_t>(), 4, 9);
  Context ctx(1);
  ops::draw(ctx, {Tensor::borrow(rows).reshape({4, 2}), there, ids, values});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(ids.data<int32_t>()[i], 9) << i;
}

}  // namespace
}  // namespace tandem::draw_test
