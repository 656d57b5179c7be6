// A decoder's layers in one kernel against the ops that they are, on the device and on the CPU.
#include "base/error.h"
#include "tests/kernels/cuda/step/decoder_step_problem.h"
#include "tests/support/variable.h"

namespace tandem::decoder_step_test {
namespace {

using testing::kActivations;
using testing::Random;
using testing::some_step;
using testing::StepCase;
using testing::StepProblem;
using testing::Variable;

constexpr const char* kRows = "TANDEM_STEP_KERNEL_ROWS";
#if defined(TANDEM_CUDA_EMULATED)
constexpr const char* kMultiprocessors = "TANDEM_EMULATOR_MULTIPROCESSORS";
constexpr const char* kCapability = "TANDEM_EMULATOR_CAPABILITY";
#endif

Context step_context(DType dtype) {
  const Variable rows(kRows, "8");
  return testing::cuda_context(dtype);
}

// attention_rows has its heads of up to 32 in fewer lanes, and so adds in another order.
bool has_bits(const StepCase& c) { return c.head_dim > 32; }

// Of sums of layers that were added in other orders.
double tolerance(DType dtype) {
  return dtype == DType::kF32 ? 1e-4 : 12 * testing::half_ulp(dtype);
}

void expect_same(const StepProblem::Result& got, const StepProblem::Result& want,
                 const StepCase& c) {
  const auto expect = [&](const Tensor& a, const Tensor& b, const char* what) {
    if (has_bits(c))
      EXPECT_TRUE(testing::same_bits(a, b)) << what << ": " << c.name();
    else
      EXPECT_TRUE(testing::near(a, b, tolerance(c.dtype), tolerance(c.dtype)))
          << what << ": " << c.name();
  };
  expect(got.out, want.out, "rows");
  for (size_t i = 0; i < got.pages.size(); ++i) expect(got.pages[i], want.pages[i], "pages");
}

void check(Random& random, Context& ctx, const StepCase& c) {
  ctx.backend().begin_step();
  StepProblem problem(ctx, random, c);
  ASSERT_TRUE(problem.is_taken()) << c.name();
  const auto want = problem.run(ops::compose_decoder_step);
  // Twice: the barrier counts on, and tickets are as they were.
  for (int turn = 0; turn < 2; ++turn) expect_same(problem.run(ops::decoder_step), want, c);
}

TEST(CudaDecoderStep, HasTheBitsOfTheOps) {
#if defined(TANDEM_CUDA_EMULATED)
  const Variable multiprocessors(kMultiprocessors, "3");
  constexpr int kRounds = 6;
#else
  constexpr int kRounds = 12;
#endif
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = step_context(dtype);
    for (int round = 0; round < kRounds; ++round) check(random, ctx, some_step(random, dtype));
  }
}

// Several chunks of keys, which are merged.
TEST(CudaDecoderStep, LongSequences) {
#if defined(TANDEM_CUDA_EMULATED)
  const Variable multiprocessors(kMultiprocessors, "2");
#endif
  Random random;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Context ctx = step_context(dtype);
    for (const int32_t queries : {1, 3}) {
      StepCase c = some_step(random, dtype);
      c.head_dim = 40;
      c.longest = 1400;
      c.block_size = 16;
      c.rows = 3;
      c.most_queries = queries;
      check(random, ctx, c);
    }
  }
}

// Rows of which all lanes of a norm have pieces, some of them two; features of several stages.
TEST(CudaDecoderStep, WideRows) {
#if defined(TANDEM_CUDA_EMULATED)
  const Variable multiprocessors(kMultiprocessors, "3");
#endif
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = step_context(dtype);
    for (const int64_t d : {520, 1096}) {
      StepCase c = some_step(random, dtype);
      c.head_dim = 40;
      c.rows = 8;
      c.layers = 1;
      c.d = d;
      check(random, ctx, c);
    }
  }
}

#if defined(TANDEM_CUDA_EMULATED)
// Any number of blocks; more than there is work for.
TEST(CudaDecoderStep, GridsOfAnySize) {
  Random random;
  for (const char* blocks : {"1", "7", "132"}) {
    const Variable multiprocessors(kMultiprocessors, blocks);
    Context ctx = step_context(DType::kBF16);
    StepCase c = some_step(random, DType::kBF16);
    c.head_dim = 48;
    c.layers = 2;
    check(random, ctx, c);
  }
}

// Without bulk copies.
TEST(CudaDecoderStep, OnOlderDevices) {
  const Variable multiprocessors(kMultiprocessors, "3"), capability(kCapability, "8.0");
  Random random;
  for (const DType dtype : kActivations) {
    Context ctx = step_context(dtype);
    for (int round = 0; round < 4; ++round) check(random, ctx, some_step(random, dtype));
  }
}

TEST(CudaDecoderStep, NotBefore80) {
  const Variable capability(kCapability, "7.5");
  Random random;
  Context ctx = step_context(DType::kF16);
  StepProblem problem(ctx, random, some_step(random, DType::kF16));
  EXPECT_FALSE(problem.is_taken());
}
#endif

// What the ops are together, is what they are on a CPU.
TEST(CudaDecoderStep, MatchesTheCpu) {
#if defined(TANDEM_CUDA_EMULATED)
  const Variable multiprocessors(kMultiprocessors, "2");
#endif
  Random random;
  for (int round = 0; round < 6; ++round) {
    const StepCase c = some_step(random, DType::kF32);
    Context device = step_context(DType::kF32), cpu(1);
    const Random before = random;
    StepProblem there(device, random, c);
    Random again = before;
    StepProblem here(cpu, again, c);
    const auto got = there.run(ops::decoder_step), want = here.run(ops::decoder_step);
    EXPECT_TRUE(testing::near(got.out, want.out, 2e-4, 2e-4)) << c.name();
    for (size_t i = 0; i < got.pages.size(); ++i)
      EXPECT_TRUE(testing::near(got.pages[i], want.pages[i], 2e-4, 2e-4)) << c.name();
  }
}

TEST(CudaDecoderStep, StepsOfOtherKindsAreNotTaken) {
  Random random;
  StepCase c = some_step(random, DType::kBF16);
  c.rows = 5;
  {
    Context ctx = testing::cuda_context(DType::kBF16);  // nobody asked for it
    StepProblem problem(ctx, random, c);
    EXPECT_FALSE(problem.is_taken());
  }
  {
    const Variable rows(kRows, "4");
    Context ctx = testing::cuda_context(DType::kBF16);
    StepProblem problem(ctx, random, c);
    EXPECT_FALSE(problem.is_taken());
    c.rows = 4;
    StepProblem fewer(ctx, random, c);
    EXPECT_TRUE(fewer.is_taken());
    fewer.args().shape.head_dim = 65;
    EXPECT_FALSE(fewer.is_taken());
  }
  Context ctx = step_context(DType::kBF16);
  c.d = 20;
  StepProblem odd(ctx, random, c);
  EXPECT_FALSE(odd.is_taken());
  c.d = 24;
  c.inner = int64_t{1} << 15;  // rows that shared memory does not hold
  StepProblem wide(ctx, random, c);
  EXPECT_FALSE(wide.is_taken());
  ctx.backend().be_batch_invariant();
  c.inner = 24;
  StepProblem invariant(ctx, random, c);
  EXPECT_FALSE(invariant.is_taken());
}

TEST(CudaDecoderStep, TheNumberOfRowsIsChecked) {
  for (const char* wrong : {"", "-1", "9", "8x"}) {
    const Variable rows(kRows, wrong);
    EXPECT_THROW(testing::cuda_context(DType::kF16), InputError) << wrong;
  }
}

}  // namespace
}  // namespace tandem::decoder_step_test
