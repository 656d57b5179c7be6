// Sampling over shards against sample() on whole rows: the same tokens, whatever the row holds.
#include "runtime/sampling/sharded_sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <vector>

#include "parallel/shard.h"
#include "tests/support/ranks/rank_threads.h"

namespace tandem::sharded_sampler_test {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> random_row(std::mt19937_64& rng, int64_t vocabulary) {
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> row(static_cast<size_t>(vocabulary));
  const auto somewhere = [&]() -> float& { return row[rng() % row.size()]; };
  for (float& x : row) x = normal(rng);
  switch (rng() % 7) {
    case 0:  // equal values across shards: the lowest id wins
      for (float& x : row) x = std::round(x);
      break;
    case 1: somewhere() = somewhere() = kNaN; break;
    case 2: somewhere() = kInfinity; break;
    case 3: std::fill(row.begin(), row.end(), -kInfinity); break;
    case 4:  // what masking leaves
      for (float& x : row) x = rng() % 3 ? -kInfinity : x;
      break;
    default: break;
  }
  return row;
}

proto::SamplingParams random_params(std::mt19937_64& rng) {
  proto::SamplingParams params;
  params.set_temperature(1);
  params.set_top_p(1);
  params.set_max_tokens(10);
  params.set_n(1);
  if (rng() % 4 == 0) {
    params.set_do_sample(true);
    params.set_seed(rng());
    params.set_top_k(static_cast<int>(rng() % 5));
  }
  if (rng() % 4 == 0) params.add_suppress_tokens(0);
  if (rng() % 4 == 0)
    for (const int id : {0, 1, 4}) params.add_allowed_token_ids(id);
  if (rng() % 4 == 0) params.set_logprobs(static_cast<int>(rng() % 3));
  return params;
}

void expect_same(const proto::SequenceOutput& got, const proto::SequenceOutput& want, bool lists) {
  EXPECT_EQ(got.token_id(), want.token_id());
  if (std::isfinite(want.logprob())) {
    EXPECT_NEAR(got.logprob(), want.logprob(), 1e-5);
  } else {
    EXPECT_EQ(std::isnan(got.logprob()), std::isnan(want.logprob()));
  }
  if (lists) {
    EXPECT_EQ(got.logprobs().SerializeAsString(), want.logprobs().SerializeAsString());
  } else {
    EXPECT_FALSE(got.has_logprobs());
  }
}

// All ranks' results of one batch.
std::vector<std::vector<proto::SequenceOutput>> run_group(
    int ranks, const std::vector<SamplerSequence>& rows,
    const std::vector<std::vector<float>>& logits, int64_t vocabulary) {
  std::vector<std::vector<proto::SequenceOutput>> out(static_cast<size_t>(ranks));
  const auto errors = testing::run_ranks(ranks, {}, [&](Communicator& comm) {
    Context ctx(1);
    const Range ids = shard_range(vocabulary, comm.rank(), ranks);
    Tensor shard({static_cast<int64_t>(rows.size()), ids.size()}, DType::kF32);
    for (size_t i = 0; i < rows.size(); ++i)
      std::copy(logits[i].begin() + ids.begin, logits[i].begin() + ids.end,
                shard.row<float>(static_cast<int64_t>(i)));
    out[static_cast<size_t>(comm.rank())] = sample_sharded(ctx, comm, rows, shard, vocabulary);
  });
  for (const auto& e : errors) EXPECT_EQ(e, "");
  return out;
}

TEST(ShardedSampler, ChoosesWhatOneRankWouldChoose) {
  const char* given = std::getenv("TANDEM_SEED");
  const uint64_t seed = given ? std::strtoull(given, nullptr, 10) : 3;
  SCOPED_TRACE("TANDEM_SEED=" + std::to_string(seed));
  std::mt19937_64 rng(seed);
  for (int trial = 0; trial < 150 && !::testing::Test::HasFailure(); ++trial) {
    const int ranks = 2 + trial % 4;
    const int64_t vocabulary = trial % 5 == 0 ? 3 : 1 + static_cast<int64_t>(rng() % 3000);
    std::vector<proto::SamplingParams> params;
    std::vector<std::vector<float>> logits;
    for (int i = 1 + static_cast<int>(rng() % 9); i > 0; --i) {
      params.push_back(random_params(rng));
      logits.push_back(random_row(rng, vocabulary));
    }
    std::vector<SamplerSequence> rows;
    for (const auto& p : params) rows.push_back({&p, {}, {}, {}, 0});
    const auto results = run_group(ranks, rows, logits, vocabulary);
    for (size_t i = 0; i < rows.size(); ++i) {
      auto whole = logits[i];
      const auto want = sample(rows[i], whole);
      for (size_t r = 0; r < results.size(); ++r) {
        SCOPED_TRACE(::testing::Message() << "trial " << trial << ", row " << i << ", rank " << r);
        expect_same(results[r][i], want, r == 0 && params[i].has_logprobs());
      }
    }
  }
}

}  // namespace
}  // namespace tandem::sharded_sampler_test
