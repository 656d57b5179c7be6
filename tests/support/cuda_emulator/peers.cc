// Devices that read each other, and memory handed to other processes. All memory is this process's,
// so that a pointer is good everywhere; what is kept here is who may use it.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "runtime.h"

namespace cuda_emulator {
namespace {

struct Peers {
  std::mutex mutex;
  std::set<std::pair<int, int>> enabled;
  std::map<const void*, int> opened;  // how often
};

Peers& peers() {
  static auto* all = new Peers;
  return *all;
}

constexpr uint64_t kHandle = 0x16c0de;
struct Handle {
  uint64_t mark;
  void* memory;
};

bool reach_each_other(int a, int b) {
  const char* text = std::getenv("TANDEM_EMULATOR_PEERS");
  return a != b && !(text && std::strcmp(text, "0") == 0);
}

}  // namespace

void expect_closed(const void* memory) {
  std::lock_guard lock(peers().mutex);
  if (!peers().opened.count(memory)) return;
  std::fprintf(stderr, "cuda_emulator: memory is freed that another process has open\n");
  std::abort();
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  int count = 0;
  cudaGetDeviceCount(&count);
  if (device < 0 || device >= count || peer < 0 || peer >= count)
    return failed(cudaErrorInvalidDevice);
  *can = reach_each_other(device, peer);
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  int device = 0, can = 0;
  cudaGetDevice(&device);
  if (const cudaError_t error = cudaDeviceCanAccessPeer(&can, device, peer)) return error;
  if (flags != 0) return failed(cudaErrorInvalidValue);
  if (!can) return failed(cudaErrorPeerAccessUnsupported);
  std::lock_guard lock(peers().mutex);
  const bool fresh = peers().enabled.emplace(device, peer).second;
  return failed(fresh ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t* handle, void* memory) {
  if (!handle || !is_device_memory(memory)) return failed(cudaErrorInvalidValue);
  const Handle data{kHandle, memory};
  *handle = {};
  std::memcpy(handle->reserved, &data, sizeof data);
  return cudaSuccess;
}

cudaError_t cudaIpcOpenMemHandle(void** to, cudaIpcMemHandle_t handle, unsigned flags) {
  Handle data;
  std::memcpy(&data, handle.reserved, sizeof data);
  if (!to || flags != cudaIpcMemLazyEnablePeerAccess) return failed(cudaErrorInvalidValue);
  if (data.mark != kHandle || !is_device_memory(data.memory))
    return failed(cudaErrorInvalidResourceHandle);
  std::lock_guard lock(peers().mutex);
  ++peers().opened[data.memory];
  *to = data.memory;
  return cudaSuccess;
}

cudaError_t cudaIpcCloseMemHandle(void* memory) {
  std::lock_guard lock(peers().mutex);
  const auto found = peers().opened.find(memory);
  if (found == peers().opened.end()) return failed(cudaErrorInvalidValue);
  if (--found->second == 0) peers().opened.erase(found);
  return cudaSuccess;
}
