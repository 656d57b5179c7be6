// Steps that cannot be recorded, and devices that fail: what is left of the process goes on, or
// says why it cannot.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "kernels/core/plugin.h"
#include "kernels/cuda/host/devices.h"
#include "kernels/cuda/host/failure.h"
#include "tests/kernels/cuda/device_matrix.h"
#include "tests/support/variable.h"

namespace tandem::cuda {
namespace {

using testing::cuda_context;
using testing::Random;

// A step that brings rows of ones to a matrix, and what else it does on the way.
class Step {
 public:
  Step() : ctx_(cuda_context(DType::kF32)) {
    Tensor host({4, 8}, DType::kF32);
    std::fill_n(host.data<float>(), host.size(), 1.0f);
    from_ = testing::to_device(ctx_, host);
    to_ = ctx_.backend().allocate({4, 8}, DType::kF32);
    rows_ = testing::to_device(ctx_, testing::indices({3, 2, 1, 0}));
  }
  void clear() {
    const Tensor zeros({4, 8}, DType::kF32);
    std::fill_n(zeros.data<float>(), zeros.size(), 0.0f);
    ctx_.backend().copy_in(zeros, to_);
  }
  void run(const std::function<void()>& besides = {}) {
    ops::gather_rows(ctx_, {from_, rows_, to_});
    if (besides) besides();
  }
  CudaBackend& backend() { return static_cast<CudaBackend&>(ctx_.backend()); }
  bool is_right() { return ctx_.on_host(to_).data<float>()[31] == 1.0f; }
  Context& ctx() { return ctx_; }

 private:
  Context ctx_;
  Tensor from_, to_, rows_;
};

TEST(CudaFailure, AStepThatCannotBeRecordedRunsAsItIs) {
  Step step;
  const std::function<void()> illegal[] = {
      [&] { step.backend().allocate({64}, DType::kF32); },
      [&] { step.backend().allocate_host({64}, DType::kF32); },
      [&] { step.ctx().make({int64_t{1} << 28}, DType::kF32); },
      [&] { TANDEM_CUDA_CHECK(cudaStreamSynchronize(step.backend().stream())); },
      [&] {
        void* memory = nullptr;
        TANDEM_CUDA_CHECK(cudaMalloc(&memory, 64));
      }};
  uint64_t key = 0;
  for (const auto& besides : illegal) {
    EXPECT_FALSE(step.backend().record(++key, [&] { step.run(besides); }));
    EXPECT_FALSE(step.backend().recording());
    step.clear();
    step.run();
    EXPECT_TRUE(step.is_right());
    step.clear();
    ASSERT_TRUE(step.backend().record(++key, [&] { step.run(); })) << "the next step is recorded";
    EXPECT_FALSE(step.is_right()) << "what is recorded does not run";
    step.backend().replay(key);
    EXPECT_TRUE(step.is_right());
  }
}

TEST(CudaFailure, AKernelThatCannotBeRecorded) {
  Step step;
  const testing::Variable fault("TANDEM_EMULATOR_FAULT", "capture:2");
  EXPECT_TRUE(step.backend().record(1, [&] { step.run(); }));
  EXPECT_FALSE(step.backend().record(2, [&] { step.run(); }));
  EXPECT_TRUE(step.backend().record(3, [&] { step.run(); }));
}

// Other exceptions pass.
TEST(CudaFailure, AStepThatThrows) {
  Step step;
  EXPECT_THROW(
      step.backend().record(1, [&] { step.run([] { throw std::logic_error("not a failure"); }); }),
      std::logic_error);
  EXPECT_TRUE(step.backend().record(1, [&] { step.run(); }));
}

TEST(CudaFailure, ADeviceThatFails) {
  {
    Step step;
    ASSERT_TRUE(step.backend().record(1, [&] { step.run(); }));
    step.backend().replay(1);
    EXPECT_EQ(lost_device(), "");
    EXPECT_EQ(device_problem(0), "");
    const testing::Variable fault("TANDEM_EMULATOR_FAULT", "graph_launch:2");
    step.backend().replay(1);
    const auto message_of = [](const std::function<void()>& call) -> std::string {
      try {
        call();
      } catch (const std::runtime_error& e) {
        return e.what();
      }
      return "";
    };
    const std::string first = message_of([&] { step.backend().replay(1); });
    EXPECT_NE(first.find("the GPU failed: a recorded step"), std::string::npos) << first;
    // Whoever asks next hears of it too, and what is made anew is refused, with the first cause.
    EXPECT_NE(message_of([&] { step.backend().synchronize(); }), "");
    EXPECT_NE(message_of([&] { step.backend().reached(step.backend().mark()); }), "");
    EXPECT_NE(message_of([&] { step.run(); }), "");
    EXPECT_EQ(lost_device(), first);
    EXPECT_NE(device_problem(0).find("only a new process"), std::string::npos);
    EXPECT_NE(device_problem(0).find(first), std::string::npos);
  }
  EXPECT_EQ(device_problem(0), "");  // the emulator's is well again
}

}  // namespace
}  // namespace tandem::cuda
