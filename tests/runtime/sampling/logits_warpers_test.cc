// The sampling filters against HuggingFace's goldens, a full sort, and values worked out by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/json.h"
#include "runtime/sampling/logits_processors.h"

namespace tandem::logits_warpers_test {
namespace {

using nlohmann::json;
using Row = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();

// A request with everything off.
proto::SamplingParams neutral() {
  proto::SamplingParams p;
  p.set_temperature(1);
  p.set_top_p(1);
  p.set_typical_p(1);
  p.set_repetition_penalty(1);
  p.set_encoder_repetition_penalty(1);
  p.set_max_tokens(1000);
  return p;
}

std::set<int> masked(const Row& row) {
  std::set<int> ids;
  for (size_t i = 0; i < row.size(); ++i)
    if (row[i] == -kInf) ids.insert(static_cast<int>(i));
  return ids;
}

TEST(Warpers, KeepWhatHuggingFaceKeeps) {
  std::ifstream file(std::string(TANDEM_SOURCE_DIR) + "/tests/data/goldens/sampling_cases.json");
  const json golden = json::parse(file);
  ASSERT_GE(golden["cases"].size(), 40u);
  for (const json& c : golden["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>() + " " + c["settings"].dump());
    proto::SamplingParams p = neutral();
    const std::map<std::string, std::function<void(double)>> setters = {
        {"temperature", [&](double v) { p.set_temperature(v); }},
        {"top_k", [&](double v) { p.set_top_k(static_cast<int>(v)); }},
        {"top_p", [&](double v) { p.set_top_p(v); }},
        {"min_p", [&](double v) { p.set_min_p(v); }},
        {"typical_p", [&](double v) { p.set_typical_p(v); }},
        {"epsilon_cutoff", [&](double v) { p.set_epsilon_cutoff(v); }},
        {"eta_cutoff", [&](double v) { p.set_eta_cutoff(v); }}};
    for (const auto& [name, value] : c["settings"].items()) setters.at(name)(value);
    Row row;
    for (const json& v : c["logits"]) row.push_back(v.is_string() ? -kInf : v.get<float>());
    warp_logits(p, row);
    std::vector<int> kept;
    for (size_t i = 0; i < row.size(); ++i)
      if (row[i] > -kInf) kept.push_back(static_cast<int>(i));
    ASSERT_EQ(kept, c["kept_ids"].get<std::vector<int>>());
    const float top = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (const float x : row) sum += std::exp(static_cast<double>(x) - top);
    for (size_t i = 0; i < kept.size(); ++i)
      EXPECT_NEAR(std::exp(static_cast<double>(row[static_cast<size_t>(kept[i])]) - top) / sum,
                  c["kept_probs"][i].get<double>(), 2e-6);
  }
}

// The definitions, on a full sort and in double; rows whose boundary is too close to call are
// skipped.
struct NaiveKept {
  std::set<int> ids;
  bool close = false;
};

NaiveKept naive_top_p(const Row& row, double top_p) {
  std::vector<int> order(row.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return row[a] < row[b]; });
  double total = 0;
  for (const float x : row) total += std::exp(static_cast<double>(x));
  NaiveKept out;
  double sum = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    sum += std::exp(static_cast<double>(row[order[i]])) / total;
    out.close |= std::fabs(sum - (1 - top_p)) < 1e-6;
    if (sum > 1 - top_p || i + 1 == order.size()) out.ids.insert(order[i]);
  }
  return out;
}

TEST(Warpers, TopPAgreesWithAFullSortOnLargeRows) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  int compared = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const size_t size = 1 + rng() % 3000;
    Row row(size);
    for (float& x : row) x = static_cast<float>(rng() % 200) / 25.0f;  // many equal ones
    const double top_p = std::uniform_real_distribution<>(0.0, 1.0)(rng);
    const NaiveKept naive = naive_top_p(row, top_p);
    if (naive.close) continue;
    proto::SamplingParams p = neutral();
    p.set_top_p(top_p);
    Row warped = row;
    warp_logits(p, warped);
    std::set<int> kept;
    for (size_t i = 0; i < size; ++i)
      if (warped[i] > -kInf) {
        kept.insert(static_cast<int>(i));
        ASSERT_EQ(warped[i], row[i]);
      }
    ASSERT_EQ(kept, naive.ids) << "top_p " << top_p << ", " << size << " logits";
    ++compared;
  }
  EXPECT_GT(compared, 30);
}

TEST(Warpers, TopKKeepsTiesAndAgreesWithASort) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  for (int trial = 0; trial < 100; ++trial) {
    Row row(1 + rng() % 2000);
    for (float& x : row) x = static_cast<float>(rng() % 300) - 150.0f;
    const int k = 1 + static_cast<int>(rng() % 1500);
    Row sorted = row;
    std::sort(sorted.rbegin(), sorted.rend());
    const float least = sorted[std::min(row.size(), static_cast<size_t>(k)) - 1];
    proto::SamplingParams p = neutral();
    p.set_top_k(k);
    Row warped = row;
    warp_logits(p, warped);
    for (size_t i = 0; i < row.size(); ++i) ASSERT_EQ(warped[i], row[i] >= least ? row[i] : -kInf);
  }
}

TEST(Warpers, TopHByHand) {
  // Four equal candidates: entropy log 4, each adds a quarter of it.
  proto::SamplingParams p = neutral();
  p.set_top_h(0.6);
  Row row = {3, 3, -kInf, 3, 3};
  warp_logits(p, row);
  EXPECT_EQ(masked(row), (std::set<int>{2, 3, 4}));
  p.set_top_h(0.1);  // the most likely one stays in any case
  row = {1, 5, 2};
  warp_logits(p, row);
  EXPECT_EQ(masked(row), (std::set<int>{0, 2}));
}

TEST(Warpers, LeaveRowsWithoutADistributionAlone) {
  proto::SamplingParams p = neutral();
  p.set_top_k(1);
  p.set_top_p(0.5);
  Row nothing(5, -kInf);
  warp_logits(p, nothing);
  EXPECT_EQ(nothing, Row(5, -kInf));
  Row infinite = {1, kInf, 2};
  warp_logits(p, infinite);
  EXPECT_EQ(infinite, (Row{1, kInf, 2}));
  Row nan = {1, NAN, 2};
  warp_logits(p, nan);
  EXPECT_EQ(nan[0], 1);
  EXPECT_TRUE(std::isnan(nan[1]));
  Row empty;
  warp_logits(p, empty);
}

}  // namespace
}  // namespace tandem::logits_warpers_test
