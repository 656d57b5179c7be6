// The emulated device: what it is and what its memory holds.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "runtime.h"

namespace cuda_emulator {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

struct Memory {
  std::mutex mutex;
  std::map<const unsigned char*, size_t> device, pinned;
  size_t used = 0, pinned_bytes = 0;
};

Memory& memory() {
  static auto* all = new Memory;  // outlives static objects that free theirs
  return *all;
}

size_t total_memory() {
  const char* text = std::getenv("TANDEM_EMULATOR_MEMORY");
  return text ? std::strtoull(text, nullptr, 10) : size_t{4} << 30;
}

// The allocation of `all` that holds this address; null if there is none.
const unsigned char* find(const std::map<const unsigned char*, size_t>& all, const void* address) {
  const auto* at = static_cast<const unsigned char*>(address);
  auto entry = all.upper_bound(at);
  if (entry == all.begin()) return nullptr;
  --entry;
  return at < entry->first + entry->second ? entry->first : nullptr;
}

size_t pinned_limit() {
  const char* text = std::getenv("TANDEM_EMULATOR_PINNED_MEMORY");
  return text ? std::strtoull(text, nullptr, 10) : ~size_t{0};
}

bool is_pinned_memory(const void* address) {
  std::lock_guard lock(memory().mutex);
  return find(memory().pinned, address) != nullptr;
}

int device_count() {
  const char* text = std::getenv("TANDEM_EMULATOR_DEVICES");
  return text ? std::atoi(text) : 1;
}

thread_local int current_device = 0;

bool is_device(int device) { return device >= 0 && device < device_count(); }

struct Capability {
  int major = 9, minor = 0;
};

Capability capability() {
  Capability result;
  if (const char* text = std::getenv("TANDEM_EMULATOR_CAPABILITY"))
    std::sscanf(text, "%d.%d", &result.major, &result.minor);
  return result;
}

size_t shared_opt_in() {
  const auto [major, minor] = capability();
  if (major == 7) return 64 << 10;
  if (major == 8) return (minor == 0 || minor == 7 ? 163 : 99) << 10;
  if (major == 12) return 99 << 10;
  return 227 << 10;
}

cudaError_t allocate(void** to, size_t size) {
  if (!to) return cudaErrorInvalidValue;
  *to = nullptr;
  if (size == 0) return cudaSuccess;
  Memory& all = memory();
  std::lock_guard lock(all.mutex);
  if (size > total_memory() - std::min(total_memory(), all.used)) return cudaErrorMemoryAllocation;
  void* result = nullptr;
  if (posix_memalign(&result, 256, size) != 0) return cudaErrorMemoryAllocation;
  std::memset(result, 0xff, size);
  all.device[static_cast<unsigned char*>(result)] = size;
  all.used += size;
  *to = result;
  return cudaSuccess;
}

bool direction_fits(const void* to, const void* from, cudaMemcpyKind kind) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  return kind == cudaMemcpyDefault ||
         (is_device_memory(to) == to_device && is_device_memory(from) == from_device);
}

}  // namespace

cudaError_t failed(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

bool is_device_memory(const void* address) {
  std::lock_guard lock(memory().mutex);
  return find(memory().device, address) != nullptr;
}

size_t allocated_bytes() {
  std::lock_guard lock(memory().mutex);
  return memory().used;
}

size_t pinned_bytes() {
  std::lock_guard lock(memory().mutex);
  return memory().pinned_bytes;
}

cudaError_t release(void* address) {
  if (!address) return cudaSuccess;
  expect_closed(address);
  std::lock_guard lock(memory().mutex);
  const auto entry = memory().device.find(static_cast<unsigned char*>(address));
  if (entry == memory().device.end()) return cudaErrorInvalidValue;
  std::memset(address, 0xff, entry->second);
  memory().used -= entry->second;
  memory().device.erase(entry);
  std::free(address);
  return cudaSuccess;
}

}  // namespace cuda_emulator

using namespace cuda_emulator;

cudaError_t cudaGetDeviceCount(int* count) { return *count = device_count(), cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  current_device = device;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) { return *device = current_device, cudaSuccess; }
cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }
cudaError_t cudaDeviceReset() { return cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) { return *version = CUDART_VERSION, cudaSuccess; }
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  std::snprintf(id, static_cast<size_t>(length), "0000:%02x:00.0", device);
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  *properties = {};
  cudaDeviceProp& p = *properties;
  std::snprintf(p.uuid.bytes, sizeof p.uuid.bytes, "emulated %x", device & 0xffff);
  std::strcpy(p.name, "emulated");
  p.totalGlobalMem = total_memory();
  p.sharedMemPerBlock = 48 << 10;
  p.reservedSharedMemPerBlock = 1 << 10;
  p.sharedMemPerBlockOptin = shared_opt_in();
  p.sharedMemPerMultiprocessor = shared_opt_in() + (1 << 10);
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = kWarp;
  p.maxThreadsPerBlock = p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  const char* multiprocessors = std::getenv("TANDEM_EMULATOR_MULTIPROCESSORS");
  p.multiProcessorCount = multiprocessors ? std::atoi(multiprocessors) : 132;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.major = capability().major;
  p.minor = capability().minor;
  p.l2CacheSize = 1 << 20;  // small: tests write over it again and again
  p.memoryBusWidth = 5120;
  p.concurrentKernels = p.unifiedAddressing = p.memoryPoolsSupported = p.cooperativeLaunch = 1;
  p.asyncEngineCount = 3;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p;
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device)) return error;
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *value = static_cast<int>(p.sharedMemPerBlock); break;
    case cudaDevAttrWarpSize: *value = p.warpSize; break;
    case cudaDevAttrClockRate: *value = 1'000'000; break;
    case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
    case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
    case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
    case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMemoryPoolsSupported: *value = 1; break;
    default: return failed(cudaErrorInvalidValue);
  }
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return std::exchange(last_error, cudaSuccess); }
cudaError_t cudaPeekAtLastError() { return last_error; }
const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
const char* cudaGetErrorName(cudaError_t error) {
#define CUDA_EMULATOR_NAME(name) \
  case name: return #name;
  switch (error) {
    CUDA_EMULATOR_NAME(cudaSuccess)
    CUDA_EMULATOR_NAME(cudaErrorInvalidValue)
    CUDA_EMULATOR_NAME(cudaErrorMemoryAllocation)
    CUDA_EMULATOR_NAME(cudaErrorInitializationError)
    CUDA_EMULATOR_NAME(cudaErrorInvalidConfiguration)
    CUDA_EMULATOR_NAME(cudaErrorInvalidMemcpyDirection)
    CUDA_EMULATOR_NAME(cudaErrorInsufficientDriver)
    CUDA_EMULATOR_NAME(cudaErrorNoDevice)
    CUDA_EMULATOR_NAME(cudaErrorInvalidDevice)
    CUDA_EMULATOR_NAME(cudaErrorPeerAccessUnsupported)
    CUDA_EMULATOR_NAME(cudaErrorInvalidResourceHandle)
    CUDA_EMULATOR_NAME(cudaErrorNotReady)
    CUDA_EMULATOR_NAME(cudaErrorIllegalAddress)
    CUDA_EMULATOR_NAME(cudaErrorPeerAccessAlreadyEnabled)
    CUDA_EMULATOR_NAME(cudaErrorLaunchFailure)
    CUDA_EMULATOR_NAME(cudaErrorCooperativeLaunchTooLarge)
    CUDA_EMULATOR_NAME(cudaErrorNotSupported)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureUnsupported)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureInvalidated)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureMerge)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureUnmatched)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureUnjoined)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureIsolation)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureImplicit)
    CUDA_EMULATOR_NAME(cudaErrorCapturedEvent)
    CUDA_EMULATOR_NAME(cudaErrorStreamCaptureWrongThread)
    CUDA_EMULATOR_NAME(cudaErrorUnknown)
  }
#undef CUDA_EMULATOR_NAME
  return "unrecognized error code";
}

// --- memory ---
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  void* there = const_cast<void*>(address);
  const bool device = is_device_memory(address), pinned = is_pinned_memory(address);
  *attributes = {device   ? cudaMemoryTypeDevice
                 : pinned ? cudaMemoryTypeHost
                          : cudaMemoryTypeUnregistered,
                 current_device, device || pinned ? there : nullptr, device ? nullptr : there};
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** to, size_t size) {
  if (const cudaError_t error = forbid_while_capturing()) return error;
  if (const cudaError_t error = device_error()) return failed(error);
  return failed(allocate(to, size));
}
cudaError_t cudaFree(void* address) {
  if (const cudaError_t error = forbid_while_capturing()) return error;
  catch_up_all();
  return failed(release(address));
}
// (Within a graph the memory is taken at capture and stays with the graph's address.)
cudaError_t cudaMallocAsync(void** to, size_t size, cudaStream_t) {
  return failed(allocate(to, size));
}
cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cudaStreamIsCapturing(stream, &status);
  if (status == cudaStreamCaptureStatusNone) return failed(release(address));
  std::unique_lock lock(memory().mutex);
  const auto entry = memory().device.find(static_cast<unsigned char*>(address));
  if (entry == memory().device.end()) return failed(cudaErrorInvalidValue);
  const size_t size = entry->second;
  lock.unlock();
  return failed(submit(stream, [=] { std::memset(address, 0xff, size); }));
}

cudaError_t cudaMallocHost(void** to, size_t size) { return cudaHostAlloc(to, size, 0); }
cudaError_t cudaHostAlloc(void** to, size_t size, unsigned) {
  if (const cudaError_t error = forbid_while_capturing()) return error;
  std::lock_guard lock(memory().mutex);
  if (size > pinned_limit() - std::min(pinned_limit(), memory().pinned_bytes) ||
      posix_memalign(to, 4096, std::max<size_t>(size, 1)) != 0)
    return failed(cudaErrorMemoryAllocation);
  std::memset(*to, 0xff, size);
  memory().pinned_bytes += size;
  memory().pinned[static_cast<unsigned char*>(*to)] = size;
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* address) {
  if (const cudaError_t error = forbid_while_capturing()) return error;
  if (!address) return cudaSuccess;
  catch_up_all();
  std::lock_guard lock(memory().mutex);
  const auto entry = memory().pinned.find(static_cast<unsigned char*>(address));
  if (entry != memory().pinned.end()) memory().pinned_bytes -= entry->second;
  if (memory().pinned.erase(static_cast<unsigned char*>(address)) == 0)
    return failed(cudaErrorInvalidValue);
  std::free(address);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* address, size_t, unsigned) {
  return failed(address ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaHostUnregister(void*) { return cudaSuccess; }
cudaError_t cudaHostGetDevicePointer(void** to, void* host, unsigned) {
  return *to = host, cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  if (const cudaError_t error = device_error()) return failed(error);
  *total = total_memory();
  *free = *total - std::min(*total, allocated_bytes() + recordings_bytes());
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t size, cudaMemcpyKind kind) {
  if (const cudaError_t error = forbid_while_capturing()) return error;
  return cudaMemcpyAsync(to, from, size, kind, nullptr);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return cudaMemcpy2DAsync(to, size, from, size, size, 1, kind, stream);
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
  if (width == 0 || height == 0) return cudaSuccess;
  if (width > to_pitch || width > from_pitch || !direction_fits(to, from, kind))
    return failed(cudaErrorInvalidValue);
  const auto copy = [=] {
    for (size_t row = 0; row < height; ++row)
      std::memmove(static_cast<char*>(to) + row * to_pitch,
                   static_cast<const char*>(from) + row * from_pitch, width);
  };
  const bool late = is_pinned_memory(is_device_memory(to) ? from : to);
  return failed(late ? submit_late(stream, copy) : submit(stream, copy));
}
cudaError_t cudaMemset(void* to, int value, size_t size) {
  if (const cudaError_t error = forbid_while_capturing()) return error;
  return cudaMemsetAsync(to, value, size, nullptr);
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t size, cudaStream_t stream) {
  if (size == 0) return cudaSuccess;
  if (!is_device_memory(to)) return failed(cudaErrorInvalidValue);
  return failed(submit(stream, [=] { std::memset(to, value, size); }));
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (!is_device(device)) return failed(cudaErrorInvalidDevice);
  static char the_pool;
  *pool = reinterpret_cast<cudaMemPool_t>(&the_pool);
  return cudaSuccess;
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return cudaSuccess; }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t, cudaMemPoolAttr attribute, void* value) {
  const bool bytes = attribute != cudaMemPoolAttrReleaseThreshold;
  *static_cast<unsigned long long*>(value) = bytes ? allocated_bytes() : 0;
  return cudaSuccess;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }

// --- functions ---
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  const bool too_much = attribute == cudaFuncAttributeMaxDynamicSharedMemorySize &&
                        (value < 0 || static_cast<size_t>(value) > shared_opt_in());
  return failed(!function || too_much ? cudaErrorInvalidValue : cudaSuccess);
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->maxThreadsPerBlock = 1024;
  attributes->numRegs = 32;
  attributes->maxDynamicSharedSizeBytes = static_cast<int>(shared_opt_in());
  attributes->ptxVersion = attributes->binaryVersion = capability().major * 10 + capability().minor;
  return cudaSuccess;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void*, int block_size,
                                                          size_t shared) {
  if (block_size < 1 || block_size > 1024) return failed(cudaErrorInvalidValue);
  const size_t by_shared = (shared_opt_in() + 1024) / (shared + 1024);
  *blocks = static_cast<int>(std::min<size_t>({32, size_t{2048} / block_size, by_shared}));
  return cudaSuccess;
}
