// The ranks of a group as threads of the test, each with a device of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/core/plugin.h"
#include "parallel/communicators/device_communicator.h"
#include "parallel/communicators/shared_memory_communicator.h"
#include "parallel/layers/build.h"

namespace tandem::testing {

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

// body(build) for every rank. There are as many devices, and a plugin.
template <class Body>
void run_devices(int ranks, DType dtype, const Body& body) {
  auto hosts = make_thread_communicators(ranks, {});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      Context ctx(1, cuda_plugin()->make_backend(rank), dtype);
      ctx.backend().begin_step();
      std::shared_ptr<Communicator> group(std::move(hosts[static_cast<size_t>(rank)]));
      if (ranks > 1) group = make_device_group(ctx, group, std::chrono::minutes(1));
      body(Build{ctx, *group, dtype});
      ctx.backend().synchronize();
      group->barrier();
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tandem::testing
