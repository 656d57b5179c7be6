// A stage's clock on a device: work counts once it is done, whatever else makes marks meanwhile.
#include "runtime/execution/ranks/stage_clock.h"

#include <gtest/gtest.h>

#include "kernels/core/plugin.h"

namespace tandem::stage_clock_test {
namespace {

TEST(StageClock, CountsWhatADeviceHasDone) {
  ASSERT_NE(cuda_plugin(), nullptr) << cuda_plugin_problem();
  Context ctx(1, cuda_plugin()->make_backend(0), DType::kF32);
  StageClock clock(ctx);
  double encoder = 0, all = 0;
  for (int step = 0; step < 50; ++step) {
    clock.begin_step();
    for (const bool of_encoder : {true, false}) {
      EXPECT_FALSE(clock.is_at_work());
      clock.begin_work(of_encoder);
      EXPECT_TRUE(clock.is_at_work());
      const Tensor x = ctx.make({64, 64});
      ctx.backend().copy_in(Tensor(x.shape(), x.dtype()), x);
      if (of_encoder || step % 2 == 0) clock.end_work();
      // Others make marks, too: more than are kept, now and then.
      for (int i = step % 20; i > 0; --i) ctx.backend().mark();
      if (step % 20 == 19 && clock.is_at_work()) clock.end_work();
    }
    clock.end_step();
    const StageClock::Seconds now = clock.seconds();
    EXPECT_GE(now.encoder, encoder);
    EXPECT_GE(now.all - now.encoder, all - encoder);
    encoder = now.encoder;
    all = now.all;
    ctx.backend().begin_step();
  }
  EXPECT_GT(encoder, 0);
  EXPECT_GT(all, encoder);
}

}  // namespace
}  // namespace tandem::stage_clock_test
