// The head of several devices without logits: the tokens and log-probabilities of its logits, the
// same bits on all ranks, run and recorded.
#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstring>
#include <ostream>
#include <random>
#include <span>
#include <vector>

#include "kernels/core/plugin.h"
#include "kernels/row_math.h"
#include "parallel/layers/layers.h"
#include "tests/support/ranks/device_ranks.h"

namespace tandem::head_of_ranks_test {
namespace {

using testing::EmulatedDevices;
using testing::run_devices;

constexpr int64_t kFeatures = 24;

struct Case {
  const char* name;
  int ranks;
  DType dtype;
  int64_t rows, vocabulary;
  float cap = 0.0f;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// The same on all ranks.
Tensor some_values(const Shape& shape, unsigned seed) {
  const Tensor out(shape, DType::kF32);
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < out.size(); ++i) out.data<float>()[i] = normal(engine);
  return out;
}

HostTensor in_a_file(const Tensor& t) {
  HostTensor out;
  out.data = static_cast<const std::byte*>(t.raw());
  out.shape = t.shape();
  out.bytes = t.bytes();
  return out;
}

struct Said {
  Tensor log_sums, ids, values, best;
  Said(Context& ctx, int64_t rows)
      : log_sums(ctx.backend().allocate({rows}, DType::kF32)),
        ids(ctx.backend().allocate({rows, 1}, DType::kI32)),
        values(ctx.backend().allocate({rows, 1}, DType::kF32)),
        best(ctx.backend().allocate({rows + 3}, DType::kI32)) {}
  // Words of all of a row's answer.
  std::vector<int32_t> words(Context& ctx) const {
    std::vector<int32_t> out;
    for (const Tensor* t : {&ids, &values, &log_sums, &best}) {
      const Tensor here = ctx.on_host(*t).as(DType::kI32);
      out.insert(out.end(), here.data<int32_t>(), here.data<int32_t>() + ids.dim(0));
    }
    return out;
  }
};

class HeadOfRanks : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    ASSERT_NE(cuda_plugin(), nullptr) << cuda_plugin_problem();
    const int devices = cuda_plugin()->device_count();
    if (devices < GetParam().ranks)
      GTEST_SKIP() << "needs " << GetParam().ranks << " devices, there are " << devices;
  }

  // Answers of a rank, one for each of two runs and of two replays of a recording.
  std::vector<std::vector<int32_t>> answers(const Build& b, const ParallelLMHead& head,
                                            const Tensor& x) {
    const int64_t rows = x.dim(0);
    std::vector<int32_t> all(static_cast<size_t>(rows));
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int32_t>(i);
    const Tensor which = b.ctx.backend().allocate({rows}, DType::kI32);
    b.ctx.backend().copy_in(Tensor::borrow(all), which);
    const Said said(b.ctx, rows);
    const auto step = [&] {
      head.take_best(x, {nullptr, {}, which, {}, said.log_sums, said.ids, said.values, said.best});
    };
    std::vector<std::vector<int32_t>> out;
    for (int i = 0; i < 2; ++i) {
      step();
      out.push_back(said.words(b.ctx));
    }
    const uint64_t key = b.ctx.backend().new_key();
    EXPECT_TRUE(b.ctx.backend().record(key, step));
    for (int i = 0; i < 2; ++i) {
      b.ctx.backend().copy_in(Tensor::zeros({rows, 1}, DType::kI32), said.ids);
      b.ctx.backend().replay(key);
      out.push_back(said.words(b.ctx));
    }
    return out;
  }

 private:
  const EmulatedDevices devices_{GetParam().ranks};
};

TEST_P(HeadOfRanks, TheTokensOfItsLogits) {
  const Case& c = GetParam();
  const Tensor weight = some_values({c.vocabulary, kFeatures}, 1),
               bias = some_values({c.vocabulary}, 2);
  for (int64_t i = c.vocabulary / 2; i < c.vocabulary; ++i) {  // equal on several ranks
    std::memcpy(weight.row<float>(i), weight.row<float>(i - c.vocabulary / 2),
                kFeatures * sizeof(float));
    bias.data<float>()[i] = bias.data<float>()[i - c.vocabulary / 2];
  }
  const Tensor x = some_values({c.rows, kFeatures}, 3);
  std::vector<std::vector<std::vector<int32_t>>> said(static_cast<size_t>(c.ranks));
  run_devices(c.ranks, c.dtype, [&](const Build& b) {
    const ParallelLMHead head(in_a_file(weight), bias, b, 1.0f, c.cap);
    ASSERT_TRUE(head.takes_best(c.rows));
    EXPECT_FALSE(head.takes_best(129));
    const Tensor there = b.ctx.resident_bias(x, b.ctx.activations());
    const Tensor logits = b.ctx.on_host(head.forward(there));
    auto& own = said[static_cast<size_t>(b.comm.rank())];
    own = answers(b, head, there);
    for (int64_t i = 0; i < c.rows; ++i) {
      const std::span<const float> row(logits.row<float>(i), static_cast<size_t>(c.vocabulary));
      const int32_t* words = own[0].data() + i;
      const int32_t id = argmax(row);
      EXPECT_EQ(words[0], id) << "row " << i;
      EXPECT_EQ(words[3 * c.rows], id) << "row " << i;
      const float value = std::bit_cast<float>(words[c.rows]);
      EXPECT_NEAR(value, row[static_cast<size_t>(id)], 1e-5);
      EXPECT_NEAR(value - std::bit_cast<float>(words[2 * c.rows]),
                  row[static_cast<size_t>(id)] - log_sum_exp(row), 1e-5);
    }
  });
  for (const auto& of_rank : said)
    for (const auto& words : of_rank) EXPECT_EQ(words, said[0][0]);
}

INSTANTIATE_TEST_SUITE_P(Cases, HeadOfRanks,
                         ::testing::Values(Case{"one", 1, DType::kF32, 3, 101},
                                           Case{"two", 2, DType::kF32, 1, 101},
                                           Case{"two_capped", 2, DType::kF32, 8, 300, 5.0f},
                                           Case{"three", 3, DType::kF32, 5, 302},
                                           Case{"three_ids", 3, DType::kF32, 2, 3},
                                           Case{"two_of_few_in_16_bits", 2, DType::kBF16, 4, 501},
                                           Case{"two_of_many", 2, DType::kBF16, 40, 501},
                                           Case{"three_of_many", 3, DType::kF16, 128, 400, 0.3f}),
                         [](const auto& info) { return info.param.name; });

// A rank without ids: rows have logits, on all ranks.
TEST(HeadOfFewIds, HasLogits) {
  const EmulatedDevices devices(3);
  ASSERT_NE(cuda_plugin(), nullptr) << cuda_plugin_problem();
  if (cuda_plugin()->device_count() < 3) GTEST_SKIP() << "needs 3 devices";
  const Tensor weight = some_values({2, kFeatures}, 1);
  run_devices(3, DType::kF32, [&](const Build& b) {
    const ParallelLMHead head(in_a_file(weight), {}, b);
    EXPECT_FALSE(head.takes_best(1));
  });
}

}  // namespace
}  // namespace tandem::head_of_ranks_test
