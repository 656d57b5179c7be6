// Rounds of beam search and moves of pages of the CUDA device against the CPU's.
#include <bit>
#include <limits>

#include "tests/kernels/beam_problem.h"
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::BeamProblem;
using testing::Random;
using testing::to_device;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Equal bits; of floats any NaN equals any other.
::testing::AssertionResult same_tensor(const Tensor& a, const Tensor& b) {
  for (int64_t i = 0; i < a.size(); ++i) {
    if (a.dtype() == DType::kF32) {
      const float x = a.data<float>()[i], y = b.data<float>()[i];
      if (x != y && !(std::isnan(x) && std::isnan(y)))
        return ::testing::AssertionFailure() << "at " << i << ": " << x << " and " << y;
      continue;
    }
    const int32_t x = a.data<int32_t>()[i], y = b.data<int32_t>()[i];
    if (x != y) return ::testing::AssertionFailure() << "at " << i << ": " << x << " and " << y;
  }
  return ::testing::AssertionSuccess();
}

ops::SearchBeamsArgs on_device(Context& ctx, const ops::SearchBeamsArgs& args) {
  ops::SearchBeamsArgs there = args;
  for (Tensor* t :
       {&there.ids, &there.values, &there.rounds, &there.beams, &there.ends, &there.memory.tokens,
        &there.memory.pages, &there.memory.scores, &there.parents, &there.chosen, &there.best})
    *t = to_device(ctx, *t);
  return there;
}

void expect_same_beams(Context& ctx, const ops::SearchBeamsArgs& got,
                       const ops::SearchBeamsArgs& want) {
  EXPECT_TRUE(same_tensor(ctx.on_host(got.parents), want.parents)) << "parents";
  EXPECT_TRUE(same_tensor(ctx.on_host(got.chosen), want.chosen)) << "chosen";
  EXPECT_TRUE(same_tensor(ctx.on_host(got.best), want.best)) << "best";
  EXPECT_TRUE(same_tensor(ctx.on_host(got.memory.tokens), want.memory.tokens)) << "tokens";
  EXPECT_TRUE(same_tensor(ctx.on_host(got.memory.pages), want.memory.pages)) << "pages";
  EXPECT_TRUE(same_tensor(ctx.on_host(got.memory.scores), want.memory.scores)) << "scores";
}

TEST(CudaSearchBeams, IsTheCpus) {
  Random random;
  Context cpu(1), ctx = testing::cuda_context(DType::kBF16);
  for (int repeat = 0; repeat < 60; ++repeat) {
    const BeamProblem p(random, random.integer(0, 5), random.pick({2, 4, 5, ops::kMaxDeviceBeams}));
    const ops::SearchBeamsArgs want = p.args(), got = on_device(ctx, want);
    ops::search_beams(cpu, want);
    ops::search_beams(ctx, got);
    expect_same_beams(ctx, got, want);
    ASSERT_FALSE(HasFailure()) << "problem " << repeat;
  }
}

// What one round leaves is what the next one begins with.
TEST(CudaSearchBeams, RoundAfterRound) {
  Random random;
  Context cpu(1), ctx = testing::cuda_context(DType::kBF16);
  const BeamProblem p(random, 3, ops::kMaxDeviceBeams);
  const ops::SearchBeamsArgs want = p.args(), got = on_device(ctx, want);
  for (int round = 0; round < 5; ++round) {
    ops::search_beams(cpu, want);
    ops::search_beams(ctx, got);
  }
  expect_same_beams(ctx, got, want);
}

Tensor random_pool(Random& random, int64_t blocks, int64_t bytes) {
  Tensor pool({blocks, bytes}, DType::kU8);
  for (int64_t i = 0; i < blocks * bytes; ++i)
    pool.data<uint8_t>()[i] = static_cast<uint8_t>(random.integer(0, 255));
  return pool;
}

void expect_moves(Random& random, Context& cpu, Context& ctx, const BeamProblem& p,
                  const std::vector<Tensor>& pools) {
  const ops::SearchBeamsArgs args = p.args();
  for (const ops::BeamRound& r : p.rounds)
    for (int32_t i = 0; i < r.num_beams; ++i)
      args.parents.data<int32_t>()[r.first_beam + i] =
          random.integer(0, 3) > 0 ? static_cast<int32_t>(random.integer(0, r.num_beams - 1)) : i;
  std::vector<Tensor> there;
  for (const Tensor& pool : pools) there.push_back(to_device(ctx, pool));
  ops::move_beam_pages(cpu, {pools, args.rounds, args.beams, args.parents});
  ops::move_beam_pages(ctx, {there, to_device(ctx, args.rounds), to_device(ctx, args.beams),
                             to_device(ctx, args.parents)});
  for (size_t i = 0; i < pools.size(); ++i)
    EXPECT_EQ(std::memcmp(ctx.on_host(there[i]).raw(), pools[i].raw(), pools[i].bytes()), 0)
        << "pool " << i << ", blocks of " << pools[i].bytes() / BeamProblem::kBlocks << " bytes";
}

TEST(CudaMoveBeamPages, IsTheCpus) {
  Random random;
  Context cpu(1), ctx = testing::cuda_context(DType::kBF16);
  for (int repeat = 0; repeat < 12; ++repeat) {
    const BeamProblem p(random, random.integer(0, 4), random.pick({2, 5, ops::kMaxDeviceBeams}));
    std::vector<Tensor> pools;
    for (int64_t n = random.integer(0, 4); n > 0; --n)
      pools.push_back(random_pool(random, BeamProblem::kBlocks,
                                  random.pick<int64_t>({0, 1, 3, 4, 16, 20, 48, 515, 1024, 1040})));
    expect_moves(random, cpu, ctx, p, pools);
  }
}

// More pools than a launch takes, and blocks of more than a tile.
TEST(CudaMoveBeamPages, ManyPoolsAndLargeBlocks) {
  Random random;
  Context cpu(1), ctx = testing::cuda_context(DType::kBF16);
  const BeamProblem p(random, 3, 3);
  std::vector<Tensor> pools;
  for (int i = 0; i < 67; ++i) pools.push_back(random_pool(random, BeamProblem::kBlocks, 6));
  expect_moves(random, cpu, ctx, p, pools);
  expect_moves(random, cpu, ctx, p,
               {random_pool(random, BeamProblem::kBlocks, 40016),
                random_pool(random, BeamProblem::kBlocks, 4099)});
}

// Two parts of edits, between them nothing or penalties.
void add_edits(Random& random, int64_t size, std::vector<int32_t>& list, int32_t& before) {
  const auto first = static_cast<int32_t>(list.size() / 3);
  for (int part = 0; part < 2; ++part) {
    for (auto id = static_cast<int32_t>(random.integer(0, 9)); id < size;
         id += static_cast<int32_t>(random.integer(1, 60)))
      for (int64_t n = random.integer(1, 2); n > 0; --n)
        list.insert(list.end(), {id, static_cast<int32_t>(random.integer(0, 3)),
                                 std::bit_cast<int32_t>(0.5f + std::abs(random.normal()))});
    if (part == 0) before = static_cast<int32_t>(list.size() / 3) - first;
  }
}

// N-grams and penalties of sequences of all lengths, over rows whose other entries are distinct or
// tied, and edits around them. Nothing is rounded in another way.
TEST(CudaSelect, LooksAtWhatRepeats) {
  Random random;
  Context cpu(1), ctx = testing::cuda_context(DType::kBF16);
  for (int repeat = 0; repeat < 25; ++repeat) {
    const int64_t rows = random.integer(1, 6), size = random.pick<int64_t>({1, 7, 40, 513, 1200});
    const int64_t places = rows + 2, longest = random.pick<int64_t>({1, 200, 1030});
    Tensor tokens({places, longest}, DType::kI32);
    for (int64_t i = 0; i < places; ++i) {
      const int64_t high = random.pick<int64_t>({0, 2, size + 3});
      for (int64_t j = 0; j < longest; ++j)
        tokens.row<int32_t>(i)[j] = static_cast<int32_t>(random.integer(-1, high));
    }
    std::vector<int32_t> starts{0}, list;
    std::vector<ops::RowHistory> histories(static_cast<size_t>(rows));
    for (ops::RowHistory& h : histories) {
      h.place = static_cast<int32_t>(random.integer(0, places - 1));
      h.length = static_cast<int32_t>(
          random.integer(0, random.pick({std::min<int64_t>(6, longest), longest})));
      h.first_output = static_cast<int32_t>(random.integer(0, h.length));
      h.ngram_size = random.pick({0, 1, 2, 3, 5});
      if (random.integer(0, 2) > 0) h.repetition = 0.5f + std::abs(random.normal());
      if (random.integer(0, 2) > 0) h.presence = random.normal();
      if (random.integer(0, 2) > 0) h.frequency = random.normal();
      if (random.integer(0, 2) > 0) add_edits(random, size, list, h.edits_before);
      starts.push_back(static_cast<int32_t>(list.size() / 3));
    }
    const auto edits = std::ssize(list) / 3;
    ops::SelectArgs want;
    want.k = static_cast<int>(std::min<int64_t>(size, 9));
    want.logits = random.matrix(rows, size, random.pick({0.0f, 4.0f}));
    for (int64_t i = 0; i < rows; ++i)
      if (random.integer(0, 2) == 0)
        want.logits.row<float>(i)[random.integer(0, size - 1)] =
            random.integer(0, 1) == 0 ? -kInfinity : kInfinity;
    want.flags = testing::indices(std::vector<int32_t>(static_cast<size_t>(rows)));
    want.edit_indptr = testing::indices(starts);
    want.edits = testing::indices(list).reshape({edits, 3});
    want.log_sums = Tensor({rows}, DType::kF32);
    want.edited = Tensor({edits}, DType::kF32);
    want.ids = Tensor({rows, want.k}, DType::kI32);
    want.values = Tensor({rows, want.k}, DType::kF32);
    want.histories = BeamProblem::table(histories, ops::kRowHistoryInts);
    want.tokens = tokens;
    ops::SelectArgs got = want;
    for (Tensor* t : {&got.logits, &got.flags, &got.edit_indptr, &got.edits, &got.log_sums,
                      &got.edited, &got.ids, &got.values, &got.histories, &got.tokens})
      *t = to_device(ctx, *t);
    ops::select(cpu, want);
    ops::select(ctx, got);
    EXPECT_TRUE(same_tensor(ctx.on_host(got.logits), want.logits)) << "logits";
    EXPECT_TRUE(same_tensor(ctx.on_host(got.edited), want.edited)) << "edited";
    EXPECT_TRUE(same_tensor(ctx.on_host(got.ids), want.ids)) << "ids";
    EXPECT_TRUE(same_tensor(ctx.on_host(got.values), want.values)) << "values";
  }
}

}  // namespace
}  // namespace tandem
