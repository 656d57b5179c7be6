// Devices other than the CPU are shared libraries, loaded on demand: the program itself needs no
// CUDA library.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/core/device_backend.h"

namespace tandem {

class DeviceCommunicator;
struct AttentionOps;                    // kernels/backends/attention_backend.h
enum class AttentionBackend : uint8_t;  // likewise

// The exports of a plugin. `version` shows whether this build made it.
struct DevicePlugin {
  const char* version;  // of Tandem, kDevicePluginVersion
  int (*device_count)();
  // "" if the device can be used, else why not.
  std::string (*problem)(int index);
  std::unique_ptr<DeviceBackend> (*make_backend)(int index);
  // This rank's end of a group of devices; null if its library is missing. Called by all ranks at
  // once. `id`: kDeviceGroupIdBytes from make_group_id() of one rank. `sums`: small ones may take
  // memory of the devices, to be faster.
  std::string (*make_group_id)();
  std::unique_ptr<DeviceCommunicator> (*make_communicator)(DeviceBackend& backend,
                                                           const std::string& id, int rank,
                                                           int size, double timeout_seconds,
                                                           bool sums);
  // Why this process has lost its devices for good; "" if it has not.
  std::string (*lost)();
  // The functions of an attention backend on these devices; null: it has none.
  const AttentionOps* (*attention_ops)(AttentionBackend backend);
};

// The name of the exported function: const DevicePlugin* tandem_device_plugin().
constexpr const char* kDevicePluginSymbol = "tandem_device_plugin";
extern const char* const kDevicePluginVersion;

// The collectives of a group of devices, and messages between two of them; work on the backend's
// stream. Failures throw std::runtime_error.
class DeviceCommunicator {
 public:
  virtual ~DeviceCommunicator() = default;
  // How the data travels, for logs.
  virtual const char* transport() const = 0;
  virtual void all_reduce(const Tensor& x) = 0;
  virtual void all_gather(const Tensor& x, const Tensor& out) = 0;
  virtual void broadcast(const Tensor& x, int root) = 0;
  // A send may wait for its receiver, in the stream.
  virtual void send(const Tensor& x, int to) = 0;
  virtual void receive(const Tensor& x, int from) = 0;
  // Throws if a rank is known to be lost, or if the work is late after that wait. `waited` == 0
  // means that all work is done: throws only if it has failed.
  virtual void check(std::chrono::nanoseconds waited) = 0;
  // From any thread.
  virtual void abort() = 0;
};

// "cpu", "cuda", "cuda:1" or "auto": CUDA if available, else the CPU. After CUDA has failed in this
// process, "auto" does not fall back to the CPU.
struct DeviceChoice {
  Device device = Device::kCpu;
  int index = 0;
};
// Throws InputError (field "device") for another text, and if CUDA is asked for but unavailable;
// the message names the missing plugin, driver or device. `local_rank` counts the ranks of one
// host, which take one device each unless an index is given.
DeviceChoice choose_device(const std::string& text, int local_rank = 0);
// Devices that `text` may choose from; 0: it means a CPU, or there is none.
int devices_for(const std::string& text);

// The plugin of CUDA devices: libtandem_cuda.so beside the program, in ../lib/tandem or ../lib, or
// TANDEM_CUDA_PLUGIN. Loaded once. Null if it cannot be loaded; cuda_plugin_problem() then has the
// reason.
const DevicePlugin* cuda_plugin();
std::string cuda_plugin_problem();
// Why that CUDA device cannot be used: the plugin, the driver or the device; "" if it can.
std::string cuda_problem(int index);

}  // namespace tandem
