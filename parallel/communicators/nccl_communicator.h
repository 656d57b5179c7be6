// Groups of CUDA devices: a part of libtandem_cuda.so only.
#pragma once

#include <memory>
#include <string>

#include "kernels/core/plugin.h"

namespace tandem::cuda {

// As DevicePlugin::make_group_id and make_communicator. "" and null if the plugin was built without
// NCCL. The backend is a CudaBackend.
std::string make_nccl_id();
std::unique_ptr<DeviceCommunicator> make_nccl_communicator(DeviceBackend& backend,
                                                           const std::string& id, int rank,
                                                           int size, double timeout_seconds,
                                                           bool sums);

}  // namespace tandem::cuda
