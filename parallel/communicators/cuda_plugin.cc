// What libtandem_cuda.so gives out: the devices of kernels/cuda, joined by NCCL's groups.
#include "kernels/core/plugin.h"
#include "kernels/cuda/backends/cuda_attention.h"
#include "kernels/cuda/host/devices.h"
#include "kernels/cuda/host/failure.h"
#include "parallel/communicators/nccl_communicator.h"

namespace tandem {
namespace {

const DevicePlugin kPlugin = {
    kDevicePluginVersion, cuda::device_count,           cuda::device_problem, cuda::make_backend,
    cuda::make_nccl_id,   cuda::make_nccl_communicator, cuda::lost_device,    cuda::attention_ops};

}  // namespace
}  // namespace tandem

extern "C" __attribute__((visibility("default"))) const tandem::DevicePlugin*
tandem_device_plugin() {
  return &tandem::kPlugin;
}
