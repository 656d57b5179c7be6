// The CUDA devices of this machine, for the plugin's table. Includes no header of CUDA.
#pragma once

#include <memory>
#include <string>

#include "kernels/core/device_backend.h"

namespace tandem::cuda {

// 0 without a driver.
int device_count();
// "" if the device can be used, else why not.
std::string device_problem(int index);
// Throws InputError (kResource): CudaBackend.
std::unique_ptr<DeviceBackend> make_backend(int index);

}  // namespace tandem::cuda
