// Groups of devices through the plugin: each collective of a communicator, on device tensors and on
// those of the host.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kernels/core/plugin.h"
#include "parallel/communicators/device_communicator.h"
#include "parallel/communicators/shared_memory_communicator.h"

namespace tandem::device_group_test {
namespace {

// As many emulated devices as asked for, while it lives. (Real ones stay as they are.)
class EmulatedDevices {
 public:
  explicit EmulatedDevices(int count) {
    setenv("TANDEM_EMULATOR_DEVICES", std::to_string(count).c_str(), 1);
  }
  ~EmulatedDevices() { unsetenv("TANDEM_EMULATOR_DEVICES"); }
  EmulatedDevices(const EmulatedDevices&) = delete;
  EmulatedDevices& operator=(const EmulatedDevices&) = delete;
};

// body(ctx, group) for every rank, each in a thread and with a device of its own. There are as
// many.
void run_devices(int ranks, const std::function<void(Context&, Communicator&)>& body) {
  auto hosts = make_thread_communicators(ranks, {});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Context ctx(1, cuda_plugin()->make_backend(rank), DType::kF32);
      ctx.backend().begin_step();
      const auto group = make_device_group(
          ctx, std::shared_ptr<Communicator>(std::move(hosts[rank])), std::chrono::minutes(1));
      body(ctx, *group);
      ctx.backend().synchronize();
      group->barrier();
    });
  for (std::thread& thread : threads) thread.join();
}

Tensor to_device(Context& ctx, const Tensor& host) {
  const Tensor there = ctx.backend().allocate(host.shape(), host.dtype());
  ctx.backend().copy_in(host, there);
  return there;
}

class DeviceGroup : public ::testing::TestWithParam<int> {};

TEST_P(DeviceGroup, AllToAll) {
  const int ranks = GetParam();
  const EmulatedDevices devices(ranks);
  ASSERT_NE(cuda_plugin(), nullptr) << cuda_plugin_problem();
  if (cuda_plugin()->device_count() < ranks)
    GTEST_SKIP() << "needs " << ranks << " devices, there are " << cuda_plugin()->device_count();
  run_devices(ranks, [&](Context& ctx, Communicator& group) {
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
