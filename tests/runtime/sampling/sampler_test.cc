// The sampler: greedy choice, reproducible draws, log-probabilities.
#include "runtime/sampling/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "kernels/row_math.h"
#include "runtime/sampling/philox.h"

namespace tandem::sampler_test {
namespace {

using Row = std::vector<float>;
constexpr float kInf = std::numeric_limits<float>::infinity();

unsigned fresh_seed() { return std::random_device{}(); }

Row random_row(size_t size, std::mt19937& rng, float scale = 4.0f) {
  std::normal_distribution<float> normal(0, scale);
  Row row(size);
  for (float& x : row) x = normal(rng);
  return row;
}

double exact_log_sum_exp(const Row& row) {
  const long double top = *std::max_element(row.begin(), row.end());
  long double sum = 0;
  for (const float x : row) sum += std::exp(static_cast<long double>(x) - top);
  return static_cast<double>(top + std::log(sum));
}

TEST(Philox, KnownAnswers) {  // of the authors' Random123 library
  EXPECT_EQ(philox4x32_10({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32_10({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(
      philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DrawsAreUniform) {
  double sum = 0, squares = 0;
  const int n = 20000;
  for (int i = 0; i < n; ++i) {
    const double u = uniform_draw(7, static_cast<uint32_t>(i % 3), static_cast<uint64_t>(i));
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    squares += u * u;
  }
  EXPECT_NEAR(sum / n, 0.5, 0.01);
  EXPECT_NEAR(squares / n, 1.0 / 3, 0.01);
}

TEST(RowMath, ExpIsAccurate) {
  double worst = 0;
  for (float x = 0; x > -87; x -= 0.0037f) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::fabs(exp_nonpositive(x) - exact) / exact);
  }
  EXPECT_LT(worst, 3e-7);
  EXPECT_EQ(exp_nonpositive(0.0f), 1.0f);
  EXPECT_EQ(exp_nonpositive(-100.0f), 0.0f);
  EXPECT_EQ(exp_nonpositive(-1e30f), 0.0f);
  EXPECT_EQ(exp_nonpositive(-kInf), 0.0f);
  EXPECT_TRUE(std::isnan(exp_nonpositive(NAN)));
}

TEST(Argmax, FirstOfEqualsAtEverySize) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  for (int trial = 0; trial < 500; ++trial) {
    Row row(1 + rng() % 1500);
    for (float& x : row) x = static_cast<float>(rng() % 20) - 30.0f;
    ASSERT_EQ(argmax(row), std::max_element(row.begin(), row.end()) - row.begin());
  }
}

TEST(Argmax, OddValues) {
  EXPECT_EQ(argmax(Row{1, NAN, kInf, NAN}), 1);
  EXPECT_EQ(argmax(Row{1, kInf, kInf}), 1);
  EXPECT_EQ(argmax(Row(1000, -kInf)), 0);
  Row row(1000, -5);
  row[700] = NAN;
  EXPECT_EQ(argmax(row), 700);
  row[999] = NAN;
  EXPECT_EQ(argmax(row), 700);
  EXPECT_EQ(argmax(Row{-kInf, -3}), 1);
}

// Equal values, NaN and infinities among them, at sizes on both sides of a block.
TEST(TopIds, AsSortedAtEverySize) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  for (int trial = 0; trial < 400; ++trial) {
    Row row(rng() % 1500);
    const unsigned values = 1 + rng() % 2000;
    for (float& x : row) {
      x = static_cast<float>(rng() % values) - 1000.0f;
      const unsigned odd = rng() % 400;
      if (odd < 4) x = odd == 0 ? NAN : odd == 1 ? kInf : odd == 2 ? -kInf : -0.0f;
    }
    std::vector<int32_t> expected(row.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](int32_t a, int32_t b) {
      const float x = row[static_cast<size_t>(a)], y = row[static_cast<size_t>(b)];
      return std::isnan(x) ? !std::isnan(y) : x > y;
    });
    const size_t k = rng() % 12;
    expected.resize(std::min(k, expected.size()));
    ASSERT_EQ(top_ids(row, k), expected) << "of " << row.size();
  }
}

TEST(LogSumExp, AgreesWithLongDouble) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  for (int trial = 0; trial < 200; ++trial) {
    const Row row = random_row(1 + rng() % 5000, rng, 0.1f + static_cast<float>(rng() % 20));
    ASSERT_NEAR(log_sum_exp(row), exact_log_sum_exp(row), 1e-6) << row.size();
  }
  EXPECT_EQ(log_sum_exp(Row{-kInf, -kInf}), -kInf);
  EXPECT_TRUE(std::isnan(log_sum_exp(Row{0, kInf})));
  EXPECT_TRUE(std::isnan(log_sum_exp(Row{0, NAN})));
  EXPECT_NEAR(log_sum_exp(Row(50000, 1000.0f)), 1000 + std::log(50000.0), 1e-6);
}

TEST(TokenLogprobs, TopKByRankAndTokenFirst) {
  const Row row = {1, 5, 3, 5, -kInf, 2};
  const double norm = exact_log_sum_exp(row);
  const proto::TokenLogprobs out = token_logprobs(row, 2, 3);
  ASSERT_EQ(out.top_size(), 4);
  const std::vector<std::pair<int, int>> expected = {{2, 3}, {1, 1}, {3, 2}, {2, 3}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(out.top(i).token_id(), expected[static_cast<size_t>(i)].first);
    EXPECT_EQ(out.top(i).rank(), expected[static_cast<size_t>(i)].second);
    EXPECT_NEAR(out.top(i).logprob(), row[static_cast<size_t>(out.top(i).token_id())] - norm, 1e-6);
  }
  EXPECT_EQ(token_logprobs(row, 0, 0).top_size(), 1);
  EXPECT_EQ(token_logprobs(row, 0, 100).top_size(), 7);  // all there are
}

TEST(TokenLogprobs, TopKAgreesWithASort) {
  const unsigned seed = fresh_seed();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  for (int trial = 0; trial < 100; ++trial) {
    Row row(1 + rng() % 400);
    for (float& x : row) x = static_cast<float>(rng() % 60) - 30.0f;
    std::vector<int> order(row.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)];
    });
    const int k = static_cast<int>(rng() % 30);
    const auto out = token_logprobs(row, 0, k);
    ASSERT_EQ(static_cast<size_t>(out.top_size()),
              1 + std::min(row.size(), static_cast<size_t>(k)));
    for (int i = 1; i < out.top_size(); ++i)
      ASSERT_EQ(out.top(i).token_id(), order[static_cast<size_t>(i - 1)]);
  }
}

struct Request {
  proto::SamplingParams params;
  std::vector<int32_t> prompt = {2}, output;
  uint32_t seq_index = 0;

  explicit Request(bool do_sample = false) {
    params.set_do_sample(do_sample);
    params.set_temperature(1);
    params.set_top_p(1);
    params.set_max_tokens(100);
    params.set_seed(42);
  }
  proto::SequenceOutput sample(Row row) const {
    return tandem::sample({&params, {}, prompt, output, seq_index}, row);
  }
};

TEST(Sample, GreedyReportsRawLogprobs) {
  const Row row = {1, 4, 3, 2};
  Request request;
  request.params.add_suppress_tokens(1);
  request.params.set_logprobs(2);
  const proto::SequenceOutput out = request.sample(row);
  EXPECT_EQ(out.token_id(), 2);
  EXPECT_NEAR(out.logprob(), 3 - exact_log_sum_exp(row), 1e-6);  // as if nothing were suppressed
  ASSERT_EQ(out.logprobs().top_size(), 3);
  EXPECT_EQ(out.logprobs().top(0).token_id(), 2);
  EXPECT_EQ(out.logprobs().top(0).rank(), 2);
  EXPECT_EQ(out.logprobs().top(1).token_id(), 1);
  Request plain;
  EXPECT_EQ(plain.sample(row).token_id(), 1);
  EXPECT_NEAR(plain.sample(row).logprob(), 4 - exact_log_sum_exp(row), 1e-6);
  EXPECT_FALSE(plain.sample(row).has_logprobs());
}

TEST(Sample, FrequenciesFollowTheDistribution) {
  const Row row = {0, 1, 2, -kInf, 1.5f};
  double total = 0;
  for (const float x : row) total += std::exp(static_cast<double>(x));
  std::map<int, int> counts;
  Request request(true);
  const int draws = 40000;
  for (int i = 0; i < draws; ++i) {
    request.params.set_seed(static_cast<uint64_t>(i) * 7919);
    ++counts[request.sample(row).token_id()];
  }
  EXPECT_EQ(counts.count(3), 0u);
  double chi_square = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] == -kInf) continue;
    const double expected = draws * std::exp(static_cast<double>(row[i])) / total;
    chi_square += std::pow(counts[static_cast<int>(i)] - expected, 2) / expected;
  }
  EXPECT_LT(chi_square, 16.3);  // 3 degrees of freedom, p = 0.001; the seeds are fixed
}

TEST(Sample, DependsOnSeedSequenceAndPositionOnly) {
  std::mt19937 rng(1);
  const Row row = random_row(1000, rng, 1.0f);
  Request a(true);
  const auto draws = [&](const Request& r) {
    std::vector<int> out;
    Request copy = r;
    for (int i = 0; i < 20; ++i) {
      out.push_back(copy.sample(row).token_id());
      copy.output.push_back(0);
    }
    return out;
  };
  EXPECT_EQ(draws(a), draws(a));
  Request other_seed = a, other_sequence = a;
  other_seed.params.set_seed(43);
  other_sequence.seq_index = 1;
  EXPECT_NE(draws(a), draws(other_seed));
  EXPECT_NE(draws(a), draws(other_sequence));
  const std::vector<int> tokens = draws(a);
  EXPECT_NE(std::count(tokens.begin(), tokens.end(), tokens[0]), 20);
}

TEST(Sample, FiltersBindTheDraw) {
  std::mt19937 rng(2);
  const Row row = random_row(500, rng);
  Request request(true);
  request.params.set_top_k(1);
  for (uint64_t seed = 0; seed < 50; ++seed) {
    request.params.set_seed(seed);
    ASSERT_EQ(request.sample(row).token_id(), argmax(row));
  }
}

TEST(Sample, RowsWithoutADistributionGiveTheArgmax) {
  Request request(true);
  EXPECT_EQ(request.sample({-kInf, -kInf}).token_id(), 0);
  EXPECT_EQ(request.sample({0, NAN, kInf}).token_id(), 1);
  EXPECT_EQ(request.sample({0, 1, kInf}).token_id(), 2);
}

// HuggingFace's `scores` times the temperature, as Whisper's thresholds see them.
TEST(Sampler, LogprobsOfWhatWasChosenFrom) {
  std::mt19937 rng(fresh_seed());
  const Row raw = random_row(300, rng);
  for (const bool sampled : {false, true}) {
    proto::SamplingParams params;
    params.set_processed_logprobs(true);
    params.set_top_p(1);
    params.set_seed(3);
    params.set_do_sample(sampled);
    params.set_temperature(sampled ? 0.6 : 1);
    params.set_top_k(sampled ? 5 : 0);
    for (int id = 0; id < 300; id += 3) params.add_suppress_tokens(id);
    Row left = raw;
    for (size_t id = 0; id < left.size(); id += 3) left[id] = -kInf;
    if (sampled) {
      Row sorted = left;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (float& x : left)
        if (x < sorted[4]) x = -kInf;
    }
    Row row = raw;
    SamplerSequence seq;
    seq.params = &params;
    const proto::SequenceOutput got = sample(seq, row);
    const double want = left[static_cast<size_t>(got.token_id())] - exact_log_sum_exp(left);
    EXPECT_NEAR(got.logprob(), want, 1e-4) << sampled;
  }
}

// ... of a beam: what is taken off, since HuggingFace makes a distribution of what is left.
TEST(Sampler, BeamsTellTheSumOfWhatIsLeft) {
  std::mt19937 rng(fresh_seed());
  Row row = random_row(100, rng);
  proto::SamplingParams params;
  params.set_num_beams(2);
  params.set_processed_logprobs(true);
  params.add_suppress_tokens(7);
  const double all = exact_log_sum_exp(row), own = row[7];
  SamplerSequence seq;
  seq.params = &params;
  const proto::BeamCandidates got = beam_candidates(seq, row);
  EXPECT_NEAR(got.log_sum(), std::log1p(-std::exp(own - all)), 1e-4);
}

}  // namespace
}  // namespace tandem::sampler_test
