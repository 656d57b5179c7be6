// ops::search_beams, which devices are compared with, beside BeamSearch: the same moves, scores and
// texts, round after round.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/order_key.h"
#include "kernels/sampling_ops.h"
#include "runtime/sampling/beam_search.h"

namespace tandem::device_beam_search_test {
namespace {

constexpr int32_t kPrompt = 1000;  // the only token of the prompt
constexpr int32_t kPageSize = 3;

class SideBySide {
 public:
  SideBySide(std::mt19937_64& engine, int beams, int vocabulary, int max_tokens)
      : engine_(engine), n_(beams), vocabulary_(vocabulary), max_tokens_(max_tokens) {
    params_.set_num_beams(beams);
    params_.set_max_tokens(max_tokens);
    params_.set_length_penalty(static_cast<float>(integer(0, 2)));
    for (int i = integer(0, 3); i > 0; --i) params_.add_eos_token_id(integer(0, vocabulary - 1));
    params_.set_ignore_eos(integer(0, 4) == 0);
    if (!params_.ignore_eos())
      ends_.assign(params_.eos_token_id().begin(), params_.eos_token_id().end());
    kind_ = integer(0, 4);
    memory_ = {Tensor::zeros({n_ + 1, max_tokens + 1}, DType::kI32),
               Tensor::zeros({n_ + 1, max_tokens / kPageSize + 1}, DType::kI32),
               Tensor::zeros({n_ + 1}, DType::kF32)};
    for (int b = 0; b < n_; ++b) places_.push_back(b + 1);
    std::shuffle(places_.begin(), places_.end(), engine_);
    for (int b = 0; b < n_; ++b) {
      const int32_t place = places_[static_cast<size_t>(b)];
      memory_.tokens.row<int32_t>(place)[0] = kPrompt;
      memory_.scores.data<float>()[place] = b == 0 ? 0.0f : -1e9f;
    }
    pages_.resize(static_cast<size_t>(n_));
  }

  // How many rounds were compared.
  int run() {
    BeamSearch search(params_);
    int rounds = 0;
    for (int step = 0; !search.finished(); ++step) {
      const int rows = step == 0 ? 1 : n_;
      const ops::SearchBeamsArgs args = arguments(step, rows, num_beam_candidates(params_));
      ops::search_beams(ctx_, args);
      const std::vector<BeamSearch::Move> moves = search.step(candidates(args));
      // With the last token everything ends: the host knows that, and takes no beams further.
      if (step + 1 == max_tokens_) break;
      compare(search, moves, args);
      if (::testing::Test::HasFailure()) break;
      ++rounds;
    }
    return rounds;
  }

 private:
  int integer(int low, int high) { return std::uniform_int_distribution<int>(low, high)(engine_); }

  float random_value() {
    constexpr float kInf = std::numeric_limits<float>::infinity();
    if (kind_ == 0) return static_cast<float>(integer(-3, 0));
    if (kind_ == 1 && integer(0, 2) > 0) return -kInf;
    if (kind_ == 2 && integer(0, 300) == 0) return std::nanf("");
    return -std::abs(std::normal_distribution<float>(0, 3)(engine_));
  }

  // A round on rows as select() would leave them; what this step fills is in new pages.
  ops::SearchBeamsArgs arguments(int step, int rows, int num_candidates) {
    const int k = std::min(num_candidates, vocabulary_);
    ops::SearchBeamsArgs args;
    args.ids = Tensor({rows, k}, DType::kI32);
    args.values = Tensor({rows, k}, DType::kF32);
    for (int row = 0; row < rows; ++row) {
      std::vector<float> values(static_cast<size_t>(vocabulary_));
      for (float& v : values) v = random_value();
      std::vector<int32_t> order(values.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return order_key(values[static_cast<size_t>(a)]) >
               order_key(values[static_cast<size_t>(b)]);
      });
      for (int i = 0; i < k; ++i) {
        const int32_t id = order[static_cast<size_t>(i)];
        args.ids.row<int32_t>(row)[i] = id;
        args.values.row<float>(row)[i] = values[static_cast<size_t>(id)];
      }
    }
    ops::BeamRound round{};
    round.rows = rows;
    round.num_beams = n_;
    round.num_candidates = num_candidates;
    round.length = step + 1;
    round.full_pages = round.length / kPageSize;
    round.num_ends = static_cast<int32_t>(ends_.size());
    args.rounds = Tensor({1, ops::kBeamRoundInts}, DType::kI32);
    std::memcpy(args.rounds.raw(), &round, sizeof(round));
    args.beams = Tensor({n_, ops::kBeamPlaceInts}, DType::kI32);
    for (int b = 0; b < n_; ++b) {
      ops::BeamPlace beam{places_[static_cast<size_t>(b)], -1, -1};
      if (round.length % kPageSize == 0) {
        beam.filled = next_page_++;
        pages_[static_cast<size_t>(b)].push_back(beam.filled);
      }
      std::memcpy(args.beams.row<int32_t>(b), &beam, sizeof(beam));
    }
    args.ends = Tensor::borrow(ends_);
    args.memory = memory_;
    args.parents = Tensor({n_}, DType::kI32);
    args.chosen = Tensor({n_}, DType::kI32);
    args.best = Tensor({n_}, DType::kI32);
    return args;
  }

  static std::vector<std::vector<BeamCandidate>> candidates(const ops::SearchBeamsArgs& args) {
    std::vector<std::vector<BeamCandidate>> rows(static_cast<size_t>(args.ids.dim(0)));
    for (size_t row = 0; row < rows.size(); ++row)
      for (int64_t i = 0; i < args.ids.dim(1); ++i) {
        const float value = args.values.row<float>(static_cast<int64_t>(row))[i];
        rows[row].push_back({args.ids.row<int32_t>(static_cast<int64_t>(row))[i], value, value});
      }
    return rows;
  }

  void compare(const BeamSearch& search, const std::vector<BeamSearch::Move>& moves,
               const ops::SearchBeamsArgs& args) {
    const std::vector<std::vector<int32_t>> before = pages_;
    for (int b = 0; b < n_; ++b) {
      const auto at = static_cast<size_t>(b);
      const int32_t place = places_[at];
      ASSERT_EQ(args.parents.data<int32_t>()[b], moves[at].parent) << "beam " << b;
      ASSERT_EQ(args.chosen.data<int32_t>()[b], moves[at].token) << "beam " << b;
      const float score = memory_.scores.data<float>()[place], want = search.score(b);
      ASSERT_TRUE(score == want || (std::isnan(score) && std::isnan(want)))
          << score << ", " << want;
      const auto tokens = search.tokens(b);
      ASSERT_EQ(memory_.tokens.row<int32_t>(place)[0], kPrompt);
      ASSERT_TRUE(std::equal(tokens.begin(), tokens.end(), memory_.tokens.row<int32_t>(place) + 1));
      pages_[at] = before[static_cast<size_t>(moves[at].parent)];
      ASSERT_TRUE(
          std::equal(pages_[at].begin(), pages_[at].end(), memory_.pages.row<int32_t>(place)));
    }
  }

  std::mt19937_64& engine_;
  int n_, vocabulary_, max_tokens_;
  int kind_ = 0;
  proto::SamplingParams params_;
  std::vector<int32_t> ends_, places_;
  std::vector<std::vector<int32_t>> pages_;  // of the running beams
  int32_t next_page_ = 1;
  ops::SequenceMemory memory_;
  Context ctx_{1};
};

TEST(DeviceBeamSearch, MovesAsBeamSearchDoes) {
  const uint64_t seed = std::random_device{}();
  std::cout << "seed " << seed << "\n";
  std::mt19937_64 engine(seed);
  const auto integer = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(engine);
  };
  int rounds = 0;
  for (int repeat = 0; repeat < 300 && !HasFailure(); ++repeat) {
    const int beams = integer(2, 16);  // with three ends 64 candidates
    SideBySide both(engine, beams, integer(beams, 80), integer(1, 20));
    rounds += both.run();
  }
  EXPECT_GT(rounds, 300);
}

}  // namespace
}  // namespace tandem::device_beam_search_test
