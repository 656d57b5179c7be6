// Devices other than the CPU are shared libraries, loaded when one is asked for: the program itself
// needs no CUDA library.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/device_backend.h"

namespace tandem {

class DeviceCommunicator;

// What a plugin gives out. Made by this build: the version says whether it was.
struct DevicePlugin {
  const char* version;  // of Tandem, kDevicePluginVersion
  int (*device_count)();
  // "" if the device can be used, else why not.
  std::string (*problem)(int index);
  std::unique_ptr<DeviceBackend> (*make_backend)(int index);
  // This rank's end of a group of devices; null where the library for it is missing. Called by all
  // ranks at once. `id`: kDeviceGroupIdBytes from make_group_id() of one rank.
  std::string (*make_group_id)();
  std::unique_ptr<DeviceCommunicator> (*make_communicator)(DeviceBackend& backend,
                                                           const std::string& id, int rank,
                                                           int size, double timeout_seconds);
  // Why this process has lost its devices for good; "" if it has not.
  std::string (*lost)();
};

// The name of the exported function: const DevicePlugin* tandem_device_plugin().
constexpr const char* kDevicePluginSymbol = "tandem_device_plugin";
extern const char* const kDevicePluginVersion;

// The collectives of a group of devices; work on the backend's stream. Failures throw
// std::runtime_error.
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;
  // How the data travels, for logs.
  virtual const char* transport() const = 0;
  virtual void all_reduce(const Tensor& x) = 0;
  virtual void all_gather(const Tensor& x, const Tensor& out) = 0;
  virtual void broadcast(const Tensor& x, int root) = 0;
  // Throws if a rank is known to be lost, or work that has been waited for so long is late; with 0,
  // when all work is done, only if that work has failed.
  virtual void check(std::chrono::nanoseconds waited) = 0;
  // From any thread.
  virtual void abort() = 0;
};

// "cpu", "cuda", "cuda:1" or "auto" (CUDA where it is to be had, else the CPU; but not where it was
// to be had until it failed in this process).
struct DeviceChoice {
  Device device = Device::kCpu;
  int index = 0;
};
// Throws InputError (field "device") for another text, and where CUDA is asked for and cannot be
// had: what is missing, the plugin, the driver or a device. `local_rank` counts the ranks of one
// host, which take one device each unless an index is given.
DeviceChoice choose_device(const std::string& text, int local_rank = 0);

// The plugin of CUDA devices: libtandem_cuda.so beside the program, in ../lib/tandem or ../lib, or
// TANDEM_CUDA_PLUGIN. Loaded once. Null where it cannot be loaded; why() then says why.
const DevicePlugin* cuda_plugin();
std::string cuda_plugin_problem();
// Why that CUDA device cannot be used: the plugin, the driver or the device; "" if it can.
std::string cuda_problem(int index);

}  // namespace tandem
