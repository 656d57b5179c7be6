// What the CUDA device keeps of sequences against the CPU's.
#include "tests/kernels/beam_problem.h"
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

using testing::indices;
using testing::Random;
using testing::to_device;

Tensor random_ids(Random& random, const Shape& shape) {
  Tensor t(shape, DType::kI32);
  for (int64_t i = 0; i < t.size(); ++i)
    t.data<int32_t>()[i] = static_cast<int32_t>(random.integer(0, 50000));
  return t;
}

void expect_same_on_host(Context& ctx, const Tensor& there, const Tensor& want) {
  EXPECT_EQ(std::memcmp(ctx.on_host(there).raw(), want.raw(), want.bytes()), 0);
}

TEST(CudaBeginSequences, IsTheCpus) {
  Random random;
  Context cpu(1), ctx = testing::cuda_context(DType::kBF16);
  for (const int64_t places : {1, 2, 7, 40}) {
    const int64_t length = random.integer(1, 300), pages = random.integer(1, 200);
    const ops::SequenceMemory want = {random_ids(random, {places, length}),
                                      random_ids(random, {places, pages}), random.vector(places)};
    const ops::SequenceMemory got = {to_device(ctx, want.tokens), to_device(ctx, want.pages),
                                     to_device(ctx, want.scores)};
    std::vector<ops::SequenceBegin> all;
    int32_t first = static_cast<int32_t>(random.integer(0, 3));
    for (int32_t place = 0; place < places; ++place) {
      if (random.integer(0, 3) == 0) continue;
      all.push_back({place, first, static_cast<int32_t>(random.integer(0, length)),
                     static_cast<int32_t>(random.integer(0, pages)), random.normal()});
      first += all.back().tokens + all.back().pages;
    }
    std::shuffle(all.begin(), all.end(), random.engine());
    const Tensor table = testing::BeamProblem::table(all, ops::kSequenceBeginInts);
    const Tensor data = random_ids(random, {first});
    ops::begin_sequences(cpu, {want, table, data});
    ops::begin_sequences(ctx, {got, to_device(ctx, table), to_device(ctx, data)});
    expect_same_on_host(ctx, got.tokens, want.tokens);
    expect_same_on_host(ctx, got.pages, want.pages);
    expect_same_on_host(ctx, got.scores, want.scores);
  }
}

TEST(CudaAppendTokens, IsTheCpus) {
  Random random;
  Context cpu(1), ctx = testing::cuda_context(DType::kBF16);
  for (const int64_t rows : {0, 1, 5, 127, 300}) {
    const int64_t length = random.integer(1, 60);
    const Tensor want = random_ids(random, {rows + 1, length}), there = to_device(ctx, want);
    const Tensor chosen = random_ids(random, {rows + random.integer(0, 3)});
    Tensor places({rows, 2}, DType::kI32);
    for (int64_t i = 0; i < rows; ++i) {
      places.row<int32_t>(i)[0] = random.integer(0, 4) == 0 ? -1 : static_cast<int32_t>(i);
      places.row<int32_t>(i)[1] = static_cast<int32_t>(random.integer(0, length - 1));
    }
    ops::append_tokens(cpu, {chosen, places, want});
    ops::append_tokens(ctx, {to_device(ctx, chosen), to_device(ctx, places), there});
    expect_same_on_host(ctx, there, want);
  }
}

// Each call to a place of its own, read when the device is there.
TEST(CudaTellHost, IsACopy) {
  Random random;
  Context ctx = testing::cuda_context(DType::kBF16);
  for (const int64_t size : {1, 127, 128, 1000}) {
    const Tensor from = random_ids(random, {size});
    const Tensor there = to_device(ctx, from);
    for (int turn = 0; turn < 2; ++turn) {
      const Tensor place = ctx.backend().allocate_host({size + 1}, DType::kI32);
      place.data<int32_t>()[size] = -7;
      const auto address = reinterpret_cast<uintptr_t>(place.raw());
      const Tensor to = to_device(
          ctx, indices({static_cast<int32_t>(address), static_cast<int32_t>(address >> 32)}));
      ops::tell_host(ctx, {there, to});
      ctx.backend().wait(ctx.backend().mark());
      EXPECT_EQ(std::memcmp(place.raw(), from.raw(), from.bytes()), 0);
      EXPECT_EQ(place.data<int32_t>()[size], -7);
    }
  }
  Context cpu(1);
  const Tensor from = random_ids(random, {5}), place({5}, DType::kI32);
  const auto address = reinterpret_cast<uintptr_t>(place.raw());
  ops::tell_host(
      cpu, {from, indices({static_cast<int32_t>(address), static_cast<int32_t>(address >> 32)})});
  EXPECT_EQ(std::memcmp(place.raw(), from.raw(), from.bytes()), 0);
}

TEST(CudaSubstitutePages, IsTheCpus) {
  Random random;
  Context cpu(1), ctx = testing::cuda_context(DType::kBF16);
  for (const int64_t size : {0, 1, 5, 128, 129, 1000}) {
    const int64_t places = random.integer(1, 30), pages = random.integer(1, 90);
    const Tensor known = random_ids(random, {places, pages}), want = random_ids(random, {size});
    for (int64_t i = 0; i < size; ++i) {
      if (random.integer(0, 1) == 0) continue;
      const int64_t place = random.integer(0, places - 1);
      want.data<int32_t>()[i] =
          static_cast<int32_t>(-1 - (place << ops::kPlacePageBits | random.integer(0, pages - 1)));
    }
    const Tensor before = testing::copy_of(want), there = to_device(ctx, want);
    ops::substitute_pages(cpu, {want, known});
    ops::substitute_pages(ctx, {there, to_device(ctx, known)});
    for (int64_t i = 0; i < size; ++i) {
      const int32_t index = before.data<int32_t>()[i], at = -1 - index;
      EXPECT_EQ(want.data<int32_t>()[i],
                index >= 0 ? index : known.row<int32_t>(at >> 16)[at & 0xffff]);
    }
    expect_same_on_host(ctx, there, want);
  }
}

}  // namespace
}  // namespace tandem
