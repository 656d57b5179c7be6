// Products' algorithms measured on the emulated cuBLASLt, which is told how long each of them
// takes.
#include <cublasLt.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "kernels/cuda/linear/gemm_cache.h"
#include "tests/kernels/cuda/device_matrix.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;
using std::chrono::microseconds;
using testing::near;
using testing::Random;

class CudaTuning : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "tandem-tuning-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override {
    cuda_emulator::set_algorithm_times({});
    fs::remove_all(folder_);
  }
  // The algorithm at this place is fast.
  static void make_fast(int place) {
    std::vector<microseconds> times(5, microseconds(3000));
    times[static_cast<size_t>(place)] = microseconds(0);
    cuda_emulator::set_algorithm_times(times);
  }
  std::unique_ptr<Context> context() {
    auto ctx = std::make_unique<Context>(1, std::make_unique<cuda::CudaBackend>(0), DType::kF32);
    ctx->backend().tune_products(folder_.string(),
                                 [this](const std::string& what) { warnings_.push_back(what); });
    return ctx;
  }
  // A product; the algorithm that made it.
  int product(Context& ctx, int64_t rows, int64_t in = 24, int64_t out = 40) {
    const Tensor x = random_.matrix(rows, in), w = random_.matrix(out, in);
    const Tensor bias = random_.matrix(1, out).reshape({out}), want({rows, out}, DType::kF32);
    const MatrixView view = testing::view_of(w);
    reference::linear(view, x, bias, Activation::kRelu, want);
    const PackedWeight packed(ctx, {&view, 1}, DType::kF32);
    // Contiguous: where rows begin is a part of a size.
    const Tensor there = testing::to_device(ctx, x),
                 result = ctx.backend().allocate({rows, out}, DType::kF32);
    ops::linear(ctx, {&packed, there, ctx.resident(bias), Activation::kRelu, result});
    EXPECT_TRUE(near(ctx.on_host(result), want, 1e-4, 1e-4)) << rows;
    return cuda_emulator::last_algorithm();
  }
  fs::path file() const { return *fs::directory_iterator(folder_); }

  Random random_;
  fs::path folder_;
  std::vector<std::string> warnings_;
};

TEST_F(CudaTuning, TheFastestIsKeptForItsSize) {
  const auto ctx = context();
  make_fast(3);  // for even numbers of rows
  EXPECT_EQ(product(*ctx, 20), 3);
  make_fast(1);
  EXPECT_EQ(product(*ctx, 20), 3) << "not measured again";
  EXPECT_EQ(product(*ctx, 18), 3) << "of the same bucket";
  EXPECT_EQ(product(*ctx, 19), 0) << "of the same bucket, and the library says no";
  EXPECT_EQ(product(*ctx, 21), 1) << "of the next one";
  EXPECT_EQ(product(*ctx, 20, 24, 41), 1) << "of another weight";
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(CudaTuning, OffItIsTheLibrarysFirst) {
  Context ctx = testing::cuda_context(DType::kF32);
  make_fast(3);
  EXPECT_EQ(product(ctx, 20), 0);
}

// Numbers of rows that are padded alike: the library is asked once, and then says whether it fits.
TEST_F(CudaTuning, TheLibraryIsAskedOnceForASize) {
  Context ctx = testing::cuda_context(DType::kF32);
  const auto& gemms = static_cast<cuda::CudaBackend&>(ctx.backend()).gemms();
  for (const int64_t rows : {20, 17, 18, 19, 20}) EXPECT_EQ(product(ctx, rows), 0);
  EXPECT_EQ(gemms.asked(), 1);
  product(ctx, 21);
  EXPECT_EQ(gemms.asked(), 2);
  product(ctx, 20, 24, 41);
  EXPECT_EQ(gemms.asked(), 3);
}

TEST_F(CudaTuning, TheNextProcessFindsIt) {
  make_fast(4);
  EXPECT_EQ(product(*context(), 20), 4);
  make_fast(1);
  EXPECT_EQ(product(*context(), 20), 4);
  EXPECT_TRUE(warnings_.empty());

  // Bytes that are no algorithm, in a file that is in order: the library refuses them.
  const cuda::GemmDevice device{"emulated", 90, cublasLtGetVersion()};
  std::string text;
  std::getline(std::ifstream(file()), text, '\0');
  auto choices = cuda::parse_choices(text, device);
  ASSERT_TRUE(choices && choices->size() == 1);
  for (auto& part : choices->begin()->second) part = ~part;
  std::ofstream(file()) << cuda::print_choices(*choices, device);
  EXPECT_EQ(product(*context(), 20), 0);

  // And a file that is not in order is not used: it is measured again.
  std::ofstream(file()) << text << " ";
  EXPECT_EQ(product(*context(), 20), 1);
  EXPECT_EQ(warnings_.size(), 1u);
  EXPECT_EQ(product(*context(), 20), 1);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(CudaTuning, NotWhileAStepIsRecorded) {
  const auto ctx = context();
  const Tensor w = random_.matrix(40, 24), x = random_.matrix(20, 24);
  const MatrixView view = testing::view_of(w);
  const PackedWeight packed(*ctx, {&view, 1}, DType::kF32);
  const Tensor there = testing::to_device(*ctx, x),
               out = ctx->backend().allocate({20, 40}, DType::kF32);
  const auto step = [&] { ops::linear(*ctx, {&packed, there, Tensor(), Activation::kNone, out}); };
  make_fast(3);
  ASSERT_TRUE(ctx->backend().record(1, step));
  ctx->backend().replay(1);
  EXPECT_EQ(cuda_emulator::last_algorithm(), 0);
  step();
  EXPECT_EQ(cuda_emulator::last_algorithm(), 3);
  ASSERT_TRUE(ctx->backend().record(2, step));
  ctx->backend().replay(2);
  EXPECT_EQ(cuda_emulator::last_algorithm(), 3);
  const Tensor want({20, 40}, DType::kF32);
  reference::linear(view, x, Tensor(), Activation::kNone, want);
  EXPECT_TRUE(near(ctx->on_host(out), want, 1e-4, 1e-4));
}

}  // namespace
}  // namespace tandem
