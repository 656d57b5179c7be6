// Groups of devices through the plugin: each collective of a communicator, on device tensors and on
// those of the host.
#include <gtest/gtest.h>

#include <vector>

#include "kernels/core/plugin.h"
#include "tests/support/ranks/device_ranks.h"

namespace tandem::device_group_test {
namespace {

using testing::EmulatedDevices;
using testing::run_devices;

Tensor to_device(Context& ctx, const Tensor& host) {
  const Tensor there = ctx.backend().allocate(host.shape(), host.dtype());
  ctx.backend().copy_in(host, there);
  return there;
}

class DeviceGroup : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    ASSERT_NE(cuda_plugin(), nullptr) << cuda_plugin_problem();
    const int devices = cuda_plugin()->device_count();
    if (devices < GetParam())
      GTEST_SKIP() << "needs " << GetParam() << " devices, there are " << devices;
  }

 private:
  const EmulatedDevices devices_{GetParam()};
};

// Each rank to the next one, of either memory; what a device has sent may change behind it.
TEST_P(DeviceGroup, Messages) {
  const int ranks = GetParam();
  run_devices(ranks, DType::kF32, [&](const Build& build) {
    Context& ctx = build.ctx;
    Communicator& group = build.comm;
    const int before = group.rank() - 1, next = group.rank() + 1;
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kI32})
      for (const bool on_device : {true, false}) {
        const Shape shape = {3, 5};
        const auto value = [&](int from, size_t i) { return static_cast<uint8_t>(31 * from + i); };
        const Tensor sent(shape, dtype), got(shape, dtype);
        for (size_t i = 0; i < sent.bytes(); ++i)
          static_cast<uint8_t*>(sent.raw())[i] = value(group.rank(), i);
        const Tensor out = on_device ? ctx.backend().allocate(shape, dtype) : got;
        if (before >= 0) group.receive(out, before);
        if (next < ranks) {
          const Tensor x = on_device ? to_device(ctx, sent) : sent;
          group.send(x, next);
          if (on_device) ctx.backend().copy_in(got, x);
        }
        if (before < 0) continue;
        const Tensor here = ctx.on_host(out);
        for (size_t i = 0; i < here.bytes(); ++i)
          ASSERT_EQ(static_cast<const uint8_t*>(here.raw())[i], value(before, i)) << i;
      }
  });
}

TEST_P(DeviceGroup, AllToAll) {
  const int ranks = GetParam();
  run_devices(ranks, DType::kF32, [&](const Build& build) {
    Context& ctx = build.ctx;
    Communicator& group = build.comm;
    for (const int64_t rows : {1, 5})
      for (const bool on_device : {true, false}) {
        const Shape shape = {ranks * rows, 7};
        const Tensor sent(shape, DType::kF32);
        for (int64_t i = 0; i < sent.size(); ++i)
          sent.data<float>()[i] = static_cast<float>(1000 * group.rank() + i);
        const Tensor x = on_device ? to_device(ctx, sent) : sent;
        const Tensor out =
            on_device ? ctx.backend().allocate(shape, DType::kF32) : Tensor(shape, DType::kF32);
        group.all_to_all(x, out);
        const Tensor got = ctx.on_host(out);
        const int64_t part = rows * 7;
        for (int64_t i = 0; i < got.size(); ++i)
          ASSERT_EQ(got.data<float>()[i],
                    static_cast<float>(1000 * (i / part) + group.rank() * part + i % part))
              << "entry " << i << " of rank " << group.rank();
      }
  });
}
INSTANTIATE_TEST_SUITE_P(Ranks, DeviceGroup, ::testing::Values(2, 3));

}  // namespace
}  // namespace tandem::device_group_test
