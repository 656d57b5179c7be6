// BeamSearch: worked examples, and against the naive search over random rows.
#include "runtime/sampling/beam_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tests/support/scheduling/naive_beam_search.h"

namespace tandem::beam_search_test {
namespace {

using testing_support::NaiveBeamOptions;
using testing_support::NaiveBeamSearch;
using Row = std::vector<float>;
using Ids = std::vector<int32_t>;
using Beams = std::vector<std::vector<BeamCandidate>>;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

proto::SamplingParams params_with(int beams, int max_tokens, Ids eos) {
  proto::SamplingParams p;
  p.set_num_beams(beams);
  p.set_max_tokens(max_tokens);
  p.set_length_penalty(1);
  p.mutable_eos_token_id()->Assign(eos.begin(), eos.end());
  return p;
}

// The best `count` of a row, as a worker sends them.
std::vector<BeamCandidate> candidates_of(const Row& row, int count) {
  std::vector<BeamCandidate> out;
  for (size_t i = 0; i < row.size(); ++i) out.push_back({int32_t(i), row[i], row[i]});
  std::stable_sort(out.begin(), out.end(), [](const BeamCandidate& a, const BeamCandidate& b) {
    return a.logprob > b.logprob;
  });
  out.resize(std::min(out.size(), size_t(count)));
  return out;
}

TEST(BeamSearch, ForksFromThePrompt) {
  BeamSearch search(params_with(2, 3, {0}));
  const auto moves = search.step(Beams{candidates_of({-9, -1, -2, -3}, 4)});
  ASSERT_EQ(moves.size(), 2u);
  EXPECT_EQ(moves[0].parent, 0);
  EXPECT_EQ(moves[0].token, 1);
  EXPECT_EQ(moves[1].parent, 0);
  EXPECT_EQ(moves[1].token, 2);
  EXPECT_FALSE(search.finished());
}

// As at the length's limit: all that the round brings ends.
TEST(BeamSearch, EndsWithTheNextRoundIfItIsTold) {
  BeamSearch search(params_with(2, 9, {0}));
  search.step(Beams{candidates_of({-9, -1, -2, -3}, 4)});
  ASSERT_FALSE(search.finished());
  search.end_with_next_round();
  search.step(Beams{candidates_of({-9, -1, -2, -3}, 4), candidates_of({-9, -1, -4, -3}, 4)});
  EXPECT_TRUE(search.finished());
  const auto best = search.hypotheses();
  EXPECT_EQ(best[0].tokens, (Ids{1, 1}));
  EXPECT_TRUE(best[0].ended && best[1].ended);
  EXPECT_EQ(best[0].score, -1);
  search.check_integrity();
}

// What a hypothesis keeps is told apart from what is added to its score.
TEST(BeamSearch, KeepsLogprobsOfWhatIsLeft) {
  proto::SamplingParams params = params_with(2, 1, {0});
  params.set_processed_logprobs(true);
  BeamSearch search(params);
  search.step(Beams{{{1, -1, -1, -0.25f}, {2, -2, -2, -0.25f}, {3, -3, -3, -0.25f}, {4, -4, -4}}});
  const auto best = search.hypotheses()[0];
  EXPECT_EQ(best.sum, -1);
  EXPECT_EQ(best.logprobs, (Row{-0.75f}));
}

// Only the first num_beams candidates may end: EOS as the third one is dropped.
TEST(BeamSearch, EndsOnlyAmongTheFirst) {
  BeamSearch search(params_with(2, 3, {0}));
  search.step(Beams{candidates_of({-3, -1, -2, -4}, 4)});
  EXPECT_FALSE(search.hypotheses()[0].ended);
  search.step(Beams{candidates_of({-0.5, -1, -2, -4}, 4), candidates_of({-9, -9, -9, -9}, 4)});
  EXPECT_TRUE(search.hypotheses()[0].ended);
  EXPECT_EQ(search.hypotheses()[0].tokens, (Ids{1, 0}));
  EXPECT_FLOAT_EQ(search.hypotheses()[0].score, -0.75f);
  EXPECT_FLOAT_EQ(search.hypotheses()[0].sum, -1.5f);
}

// A forced BOS: one finite candidate, so the beams start with the same token, all but one of them
// out of the running.
TEST(BeamSearch, OneCandidateMakesEqualBeams) {
  BeamSearch search(params_with(3, 4, {2}));
  const auto moves = search.step(Beams{candidates_of({0, -kInfinity, -kInfinity, -kInfinity}, 6)});
  for (const auto& move : moves) {
    EXPECT_EQ(move.token, 0);
    EXPECT_EQ(move.parent, 0);
  }
  EXPECT_EQ(search.score(0), 0.0f);
  EXPECT_EQ(search.score(1), -1e9f);
}

// What HuggingFace generates and we put into the prompt counts in lengths.
TEST(BeamSearch, CountsABosOfThePrompt) {
  auto params = params_with(2, 1, {0});
  params.set_prompt_tokens_counted_as_generated(1);
  BeamSearch search(params);
  search.step(Beams{candidates_of({-1, -2, -3}, 3)});
  ASSERT_TRUE(search.finished());
  EXPECT_FLOAT_EQ(search.hypotheses()[0].score, -0.5f);
}

TEST(BeamSearch, NaNsAndFewCandidatesDoNoHarm) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  BeamSearch search(params_with(4, 3, {0}));
  search.step(Beams{{{1, kNaN, kNaN}}});
  while (!search.finished()) {
    search.step(Beams(4, {{1, kNaN, kNaN}}));
    search.check_integrity();
  }
  EXPECT_EQ(search.hypotheses().size(), 4u);
}

class Case {
 public:
  explicit Case(uint32_t seed) : random_(seed) {
    options_.num_beams = pick(2, 6);
    options_.vocabulary = pick(4, 24);
    options_.prompt_len = pick(1, 3);
    options_.max_length = options_.prompt_len + pick(1, 12);
    options_.length_penalty = std::vector<double>{-1, 0, 0.5, 1, 1, 2, 3.7}[size_t(pick(0, 6))];
    options_.early_stopping = static_cast<decltype(options_.early_stopping)>(pick(0, 2));
    for (int eos = pick(0, 2); eos > 0; --eos) {
      const int32_t id = pick(0, options_.vocabulary - 1);
      if (std::find(options_.eos.begin(), options_.eos.end(), id) == options_.eos.end())
        options_.eos.push_back(id);
    }
    masked_ = pick(0, 3) == 0 ? pick(1, 90) : 0;
    ties_ = pick(0, 2) == 0;
    eos_bias_ = float(pick(-3, 6));
    forced_ = pick(0, 3) == 0 ? pick(0, options_.vocabulary - 1) : -1;
    positive_ = pick(0, 9) == 0;
    salt_ = uint32_t(random_());
  }

  // A pure function of the sequence.
  Row row(const Ids& ids) const {
    uint32_t hash = salt_;
    for (const int32_t id : ids) hash = (hash ^ uint32_t(id + 1)) * 0x9e3779b1u;
    std::mt19937 random(hash);
    const auto v = size_t(options_.vocabulary);
    if (forced_ >= 0 && int(ids.size()) == options_.prompt_len) {
      Row row(v, -kInfinity);
      row[size_t(forced_)] = 0;
      return row;
    }
    Row row(v);
    std::normal_distribution<float> normal(0, 2);
    double sum = 0;
    for (float& x : row) x = ties_ ? std::round(normal(random)) : normal(random);
    for (const int32_t id : options_.eos) row[size_t(id)] += eos_bias_;
    for (const float x : row) sum += std::exp(double(x));
    for (float& x : row) x = positive_ ? x : x - float(std::log(sum));
    if (ties_)
      for (float& x : row) x = std::round(x * 4) / 4;
    for (float& x : row)
      if (int(random() % 100) < masked_) x = -kInfinity;
    return row;
  }

  void check() const {
    Ids prompt;
    for (int i = 0; i < options_.prompt_len; ++i) prompt.push_back(i);
    NaiveBeamSearch naive(options_, [&](const Ids& ids) { return row(ids); });
    const auto expected = naive.run(prompt);
    BeamSearch search(params());
    Ids start = prompt;
    std::vector<Ids> running{start};
    while (!search.finished()) {
      Beams beams;
      for (const Ids& ids : running)
        beams.push_back(candidates_of(row(ids), num_beam_candidates(params())));
      const auto moves = search.step(beams);
      search.check_integrity();
      std::vector<Ids> next;
      for (const auto& move : moves) {
        next.push_back(running[size_t(move.parent)]);
        next.back().push_back(move.token);
      }
      running = next;
      for (int b = 0; b < search.num_beams(); ++b) {
        const Ids generated(running[size_t(b)].begin() + options_.prompt_len,
                            running[size_t(b)].end());
        ASSERT_EQ(generated, search.tokens(b));
      }
    }
    ASSERT_EQ(search.num_steps(), expected.steps);
    const auto hypotheses = search.hypotheses();
    for (size_t i = 0; i < hypotheses.size(); ++i) {
      const auto& h = hypotheses[i];
      ASSERT_EQ(h.tokens, expected.sequences[i]) << "hypothesis " << i;
      ASSERT_EQ(h.score, expected.scores[i]) << "hypothesis " << i;
      ASSERT_EQ(h.ended, expected.ended[i]) << "hypothesis " << i;
    }
  }

 private:
  proto::SamplingParams params() const {
    auto p =
        params_with(options_.num_beams, options_.max_length - options_.prompt_len, options_.eos);
    p.set_length_penalty(options_.length_penalty);
    p.set_early_stopping(options_.early_stopping == NaiveBeamOptions::kTrue
                             ? proto::SamplingParams::EARLY_STOPPING_TRUE
                         : options_.early_stopping == NaiveBeamOptions::kFalse
                             ? proto::SamplingParams::EARLY_STOPPING_FALSE
                             : proto::SamplingParams::EARLY_STOPPING_NEVER);
    return p;
  }
  int pick(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }

  std::mt19937 random_;
  NaiveBeamOptions options_;
  int masked_ = 0, forced_ = -1;
  bool ties_ = false, positive_ = false;
  float eos_bias_ = 0;
  uint32_t salt_ = 0;
};

// Histories are shared: a round adds its own tokens, and copies none that were there.
TEST(BeamSearch, ARoundAddsAsMuchHoweverLongTheBeamsAre) {
  BeamSearch search(params_with(4, 200, {}));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1);
  size_t before = 0;
  while (!search.finished()) {
    Beams beams;
    for (size_t b = 0; b < (search.num_steps() == 0 ? 1u : 4u); ++b) {
      Row row(20);
      for (float& x : row) x = normal(random) - 4;
      beams.push_back(candidates_of(row, 8));
    }
    const BeamSearch::Round round = search.choose(beams);
    EXPECT_EQ(search.tree().size(), before) << "a choice changes nothing";
    search.apply(round);
    EXPECT_LE(search.tree().size(), before + 8) << "the next beams, and hypotheses";
    before = search.tree().size();
  }
  search.check_integrity();
  EXPECT_EQ(search.num_steps(), 200);
  EXPECT_EQ(search.hypotheses()[0].tokens.size(), 200u);
}

TEST(TokenTree, SequencesShareTheirBeginnings) {
  TokenTree tree(/*keeps_logprobs=*/true);
  const auto a = tree.append(TokenTree::kRoot, 5, -1), b = tree.append(a, 6, -2);
  const auto c = tree.append(a, 7, -3), d = tree.append(c, 8, -4);
  EXPECT_EQ(tree.size(), 4u);
  EXPECT_EQ(tree.tokens(TokenTree::kRoot), Ids{});
  EXPECT_EQ(tree.tokens(b), (Ids{5, 6}));
  EXPECT_EQ(tree.tokens(d), (Ids{5, 7, 8}));
  EXPECT_EQ(tree.logprobs(d), (Row{-1, -3, -4}));
  EXPECT_EQ(tree.length(d), 3);
  EXPECT_EQ(tree.last_token(b), 6);
  tree.check_integrity();
}

TEST(BeamSearch, AgreesWithTheNaiveSearch) {
  const uint32_t seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  for (uint32_t i = 0; i < 12000; ++i) {
    SCOPED_TRACE("case " + std::to_string(i) + " of seed " + std::to_string(seed));
    Case(seed + i).check();
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tandem::beam_search_test
