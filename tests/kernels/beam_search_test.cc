// The CPU's rounds of beam search, moves of pages and n-grams, which devices are compared with,
// against the same written out naively.
#include <set>
#include <tuple>

#include "tests/kernels/beam_problem.h"

namespace tandem::beam_search_test {
namespace {

using testing::BeamProblem;
using testing::indices;
using testing::Random;

using Ids = std::vector<int32_t>;

// What a place holds.
struct Sequence {
  Ids tokens, pages;
  float score;
};

Sequence sequence_in(const ops::SequenceMemory& memory, int32_t place) {
  const int32_t *tokens = memory.tokens.row<int32_t>(place),
                *pages = memory.pages.row<int32_t>(place);
  return {Ids(tokens, tokens + memory.tokens.dim(1)), Ids(pages, pages + memory.pages.dim(1)),
          memory.scores.data<float>()[place]};
}

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// Likeliest first: a number that grows with what should come later.
int64_t rank_of(float x) { return -int64_t{order_key(x)}; }

struct NaiveBeam {
  int32_t parent, token;
  Sequence sequence;
};

std::vector<NaiveBeam> naive_round(const BeamProblem& p, const ops::BeamRound& r) {
  std::vector<Sequence> before;
  for (int32_t b = 0; b < r.num_beams; ++b) {
    const ops::BeamPlace& beam = p.beams[static_cast<size_t>(r.first_beam + b)];
    before.push_back(sequence_in(p.memory, beam.place));
    if (beam.filled >= 0) before.back().pages[static_cast<size_t>(r.full_pages) - 1] = beam.filled;
  }
  // Rank of the sum, beam, rank of its own value, token, sum.
  std::vector<std::tuple<int64_t, int32_t, int64_t, int32_t, float>> all;
  for (int32_t b = 0; b < r.num_beams; ++b) {
    const int64_t row = r.first_row + (r.rows == 1 ? 0 : b);
    for (int64_t i = 0; i < std::min<int64_t>(r.num_candidates, p.ids.dim(1)); ++i) {
      const float value = p.values.row<float>(row)[i];
      const float sum = value + before[static_cast<size_t>(b)].score;
      all.emplace_back(rank_of(sum), b, rank_of(value), p.ids.row<int32_t>(row)[i], sum);
    }
  }
  std::sort(all.begin(), all.end());
  if (all.size() > static_cast<size_t>(r.num_candidates))
    all.resize(static_cast<size_t>(r.num_candidates));
  // Rank once what ends is put back, position, sum.
  std::vector<std::tuple<int64_t, size_t, float>> running;
  for (size_t i = 0; i < all.size(); ++i) {
    float sum = std::get<4>(all[i]);
    bool ends = false;
    for (int32_t e = r.first_end; e < r.first_end + r.num_ends; ++e)
      ends = ends || p.ends[static_cast<size_t>(e)] == std::get<3>(all[i]);
    if (ends) sum += -1e9f;
    running.emplace_back(rank_of(sum), i, sum);
  }
  std::sort(running.begin(), running.end());
  std::vector<NaiveBeam> next;
  for (int32_t b = 0; b < r.num_beams; ++b) {
    const auto& [rank, at, sum] = running[static_cast<size_t>(b)];
    const int32_t parent = r.rows == 1 ? 0 : std::get<1>(all[at]);
    const Sequence& from = before[static_cast<size_t>(parent)];
    const ops::BeamPlace& beam = p.beams[static_cast<size_t>(r.first_beam + b)];
    NaiveBeam n = {parent, std::get<3>(all[at]), sequence_in(p.memory, beam.place)};
    std::copy_n(from.tokens.begin(), r.length, n.sequence.tokens.begin());
    n.sequence.tokens[static_cast<size_t>(r.length)] = n.token;
    std::copy_n(from.pages.begin(), r.full_pages, n.sequence.pages.begin());
    n.sequence.score = sum;
    next.push_back(n);
  }
  return next;
}

TEST(SearchBeams, IsTheNaiveSearch) {
  Random random;
  Context ctx(1);
  for (int repeat = 0; repeat < 400; ++repeat) {
    const BeamProblem p(random, random.integer(0, 4), random.pick({2, 5, ops::kMaxDeviceBeams}));
    const ops::SearchBeamsArgs got = p.args();
    ops::search_beams(ctx, got);
    std::vector<Sequence> want;
    for (int32_t i = 0; i < p.memory.tokens.dim(0); ++i) want.push_back(sequence_in(p.memory, i));
    Ids parents(p.beams.size(), -7), chosen(p.beams.size(), -7);
    for (const ops::BeamRound& r : p.rounds) {
      if (r.num_beams == 0) continue;
      const std::vector<NaiveBeam> next = naive_round(p, r);
      for (size_t b = 0; b < next.size(); ++b) {
        const size_t at = static_cast<size_t>(r.first_beam) + b;
        want[static_cast<size_t>(p.beams[at].place)] = next[b].sequence;
        parents[at] = next[b].parent;
        chosen[at] = next[b].token;
      }
    }
    for (size_t i = 0; i < p.beams.size(); ++i) {
      ASSERT_EQ(got.parents.data<int32_t>()[i], parents[i]) << i;
      ASSERT_EQ(got.chosen.data<int32_t>()[i], chosen[i]) << i;
      ASSERT_EQ(got.best.data<int32_t>()[i], chosen[i]) << i;
    }
    ASSERT_EQ(got.best.data<int32_t>()[p.beams.size()], -7);
    for (size_t i = 0; i < want.size(); ++i) {
      const Sequence s = sequence_in(got.memory, static_cast<int32_t>(i));
      ASSERT_EQ(s.tokens, want[i].tokens) << i;
      ASSERT_EQ(s.pages, want[i].pages) << i;
      ASSERT_TRUE(same(s.score, want[i].score)) << s.score << ", not " << want[i].score;
    }
  }
}

// In the first round the beams that are not running yet take what nothing else is left for.
TEST(SearchBeams, FirstRoundWithFewPossibleTokens) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  Context ctx(1);
  ops::BeamRound r{};
  r.rows = 1;
  r.num_beams = 2;
  r.num_candidates = 4;
  const std::vector<ops::BeamPlace> beams = {{1, -1, -1}, {0, -1, -1}};
  std::vector<float> values = {-1, -kInf, -kInf, -kInf}, scores = {-1e9f, 0};
  ops::SearchBeamsArgs args;
  args.ids = indices({5, 0, 1, 2}).reshape({1, 4});
  args.values = Tensor::borrow(values).reshape({1, 4});
  args.rounds = BeamProblem::table(std::vector{r}, ops::kBeamRoundInts);
  args.beams = BeamProblem::table(beams, ops::kBeamPlaceInts);
  args.ends = indices({});
  args.memory = {indices({0, 0}).reshape({2, 1}), indices({0, 0}).reshape({2, 1}),
                 Tensor::borrow(scores)};
  args.parents = indices({-1, -1});
  args.chosen = indices({-1, -1});
  args.best = indices({-1, -1});
  ops::search_beams(ctx, args);
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(args.parents.data<int32_t>()[i], 0);
    EXPECT_EQ(args.chosen.data<int32_t>()[i], 5);
  }
  EXPECT_EQ(scores, (std::vector<float>{-1e9f, -1}));
}

TEST(MoveBeamPages, AreTheParents) {
  Random random;
  Context ctx(1);
  for (int repeat = 0; repeat < 30; ++repeat) {
    const BeamProblem p(random, random.integer(0, 4), ops::kMaxDeviceBeams);
    const ops::SearchBeamsArgs args = p.args();
    for (const ops::BeamRound& r : p.rounds)
      for (int32_t i = 0; i < r.num_beams; ++i)
        args.parents.data<int32_t>()[r.first_beam + i] =
            static_cast<int32_t>(random.integer(0, r.num_beams - 1));
    const Tensor before = random.matrix(BeamProblem::kBlocks, 3), after = testing::copy_of(before);
    ops::move_beam_pages(ctx, {std::span(&after, 1), args.rounds, args.beams, args.parents});
    Tensor want = testing::copy_of(before);
    for (const ops::BeamRound& r : p.rounds)
      for (int32_t i = r.first_beam; i < r.first_beam + r.num_beams; ++i) {
        const int32_t parent = r.first_beam + args.parents.data<int32_t>()[i];
        if (p.beams[static_cast<size_t>(i)].page >= 0)
          std::copy_n(before.row<float>(p.beams[static_cast<size_t>(parent)].page), 3,
                      want.row<float>(p.beams[static_cast<size_t>(i)].page));
      }
    ASSERT_TRUE(testing::same_bits(after, want));
  }
}

std::set<int32_t> naive_repeats(const Ids& tokens, int32_t n) {
  std::set<int32_t> masked;
  if (n == 0) return masked;
  const auto before = static_cast<size_t>(n) - 1;
  for (size_t end = before; end < tokens.size(); ++end) {
    Ids gram(tokens.begin() + static_cast<std::ptrdiff_t>(end - before),
             tokens.begin() + static_cast<std::ptrdiff_t>(end));
    const Ids last(tokens.end() - static_cast<std::ptrdiff_t>(before), tokens.end());
    if (gram == last) masked.insert(tokens[end]);
  }
  return masked;
}

TEST(Select, MasksWhatWouldRepeat) {
  Random random;
  Context ctx(1);
  int masked_in_all = 0;
  for (int repeat = 0; repeat < 300; ++repeat) {
    const int64_t size = random.integer(1, 12);
    const auto length = static_cast<int32_t>(random.integer(0, 60));
    const int32_t n = random.pick({0, 1, 2, 3, 5});
    Ids tokens(static_cast<size_t>(length) + 1);
    for (int32_t& t : tokens) t = static_cast<int32_t>(random.integer(-1, random.pick({2, 12})));
    ops::SelectArgs args;
    args.logits = random.matrix(1, size);
    args.flags = indices({0});
    args.edit_indptr = indices({0, 1});
    args.edits = indices({0, static_cast<int32_t>(ops::LogitEdit::kSet), 0}).reshape({1, 3});
    args.k = static_cast<int>(size);
    args.log_sums = Tensor({1}, DType::kF32);
    args.edited = Tensor({1}, DType::kF32);
    args.ids = Tensor({1, size}, DType::kI32);
    args.values = Tensor({1, size}, DType::kF32);
    args.histories = BeamProblem::table(
        std::vector<ops::RowHistory>{
            {.length = length, .edits_before = random.pick({0, 1}), .ngram_size = n}},
        ops::kRowHistoryInts);
    args.tokens = indices(tokens).reshape({1, length + 1});
    tokens.pop_back();
    const Tensor before = testing::copy_of(args.logits);
    ops::select(ctx, args);
    const std::set<int32_t> masked = naive_repeats(tokens, n);
    masked_in_all += static_cast<int>(masked.size());
    for (int32_t i = 0; i < size; ++i) {
      const float kept = i == 0 ? 0.0f : before.data<float>()[i];
      const float want = masked.contains(i) ? -std::numeric_limits<float>::infinity() : kept;
      ASSERT_EQ(args.logits.data<float>()[i], want) << i << ", n = " << n;
    }
    EXPECT_EQ(args.edited.data<float>()[0], before.data<float>()[0]);
  }
  EXPECT_GT(masked_in_all, 100);
}

}  // namespace
}  // namespace tandem::beam_search_test
