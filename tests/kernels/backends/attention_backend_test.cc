// Which functions the ops of attention go to: a backend's in their scope, the device's elsewhere
// and where the backend has none; the reference beside the CPU's own.
#include "kernels/backends/attention_backend.h"

#include <set>
#include <string>
#include <thread>

#include "kernels/op_table.h"
#include "kernels/profiled_ops.h"
#include "tests/kernels/kernels_test_util.h"

namespace tandem::attention_backend_test {
namespace {

using testing::indices;
using testing::near;
using testing::Random;
using testing::same_bits;

int calls = 0;
void counted(Context&, const ops::RaggedAttentionArgs&) { ++calls; }
constexpr AttentionOps only_ragged() {
  AttentionOps out;
  out.ragged_attention = counted;
  return out;
}

struct Ragged {
  ops::RaggedAttentionArgs args;
  explicit Ragged(Random& random) {
    constexpr int kHeads = 2, kHeadDim = 16;
    const int64_t rows = 20, size = kHeads * kHeadDim;
    args = {random.matrix(rows, size),
            random.matrix(rows, size),
            random.matrix(rows, size),
            indices({0, 7, 20}),
            kHeads,
            kHeadDim,
            0.25f,
            Tensor({rows, size}, DType::kF32)};
  }
  Tensor run(Context& ctx) const {
    ops::RaggedAttentionArgs a = args;
    a.out = Tensor(args.q.shape(), DType::kF32);
    ops::ragged_attention(ctx, a);
    return a.out;
  }
};

TEST(AttentionBackend, NamesAreDistinctAndReferenceHasEveryOpOnTheCpu) {
  std::set<std::string> names;
  for (const NamedAttentionBackend& known : kAttentionBackends)
    EXPECT_TRUE(names.insert(known.name).second) << known.name;
  EXPECT_EQ(cpu_attention_ops(AttentionBackend::kAuto), nullptr);
  const Context ctx(1);
  const AttentionTable table(ctx, AttentionBackend::kReference);
  EXPECT_TRUE(table.lacking().empty());
#define TANDEM_EXPECT_OWN(name, Args) EXPECT_NE(table.ops().name, kCpuOps.name) << #name;
  TANDEM_ATTENTION_OPS(TANDEM_EXPECT_OWN)
#undef TANDEM_EXPECT_OWN
  EXPECT_EQ(table.ops().linear, kCpuOps.linear);
}

TEST(AttentionBackend, WhatItLacksIsTheDevicesAndIsNamed) {
  const Context ctx(1);
  const AttentionTable table(ctx, only_ragged());
  std::set<std::string> want;
#define TANDEM_NAME(name, Args) want.insert(#name);
  TANDEM_ATTENTION_OPS(TANDEM_NAME)
#undef TANDEM_NAME
  want.erase("ragged_attention");
  EXPECT_EQ(std::set<std::string>(table.lacking().begin(), table.lacking().end()), want);
  EXPECT_EQ(table.ops().paged_attention, kCpuOps.paged_attention);
}

TEST(AttentionBackend, AScopeIsOfItsContextAndItsThread) {
  Random random;
  Context ctx(1), other(1);
  const Ragged problem(random);
  const AttentionTable table(ctx, only_ragged());
  calls = 0;
  {
    const AttentionScope scope(ctx, &table);
    problem.run(ctx);
    EXPECT_EQ(calls, 1);
    problem.run(other);
    EXPECT_EQ(calls, 1);
    {
      const AttentionScope inner(ctx, nullptr);  // a worker with "auto" within
      EXPECT_EQ(&device_ops(ctx), &kCpuOps);
    }
    std::thread([&] { EXPECT_EQ(&device_ops(ctx), &kCpuOps); }).join();
    EXPECT_EQ(&device_ops(ctx), &table.ops());
  }
  EXPECT_EQ(&device_ops(ctx), &kCpuOps);
}

TEST(AttentionBackend, IsWhatIsProfiled) {
  Random random;
  Profile profile({0, 1000});
  ProfileGroup* const group = profile.add_group("rank 0", 1, {"thread 0"});
  Context ctx(1);
  const AttentionTable table(ctx, only_ragged());
  calls = 0;
  const ProfiledScope recorded(group);
  const AttentionScope scope(ctx, &table);
  Ragged(random).run(ctx);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(profile.num_events(), 1u);
}

TEST(AttentionBackend, ReferenceGivesTheSameWithOtherBits) {
  Random random;
  Context ctx(2);
  const AttentionTable table(ctx, AttentionBackend::kReference);
  bool differs = false;
  for (int round = 0; round < 8; ++round) {
    const Ragged problem(random);
    const Tensor fast = problem.run(ctx);
    const AttentionScope scope(ctx, &table);
    const Tensor plain = problem.run(ctx);
    EXPECT_TRUE(near(fast, plain, 2e-6, 1e-5));
    differs = differs || !same_bits(fast, plain);
  }
  EXPECT_TRUE(differs) << "the reference was not called";
}

}  // namespace
}  // namespace tandem::attention_backend_test
