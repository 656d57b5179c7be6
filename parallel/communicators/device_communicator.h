// The ranks of a group whose tensors lie on devices.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "kernels/core/context.h"
#include "parallel/communicators/communicator.h"

namespace tandem {

// What a group is for. One for messages takes less memory of the devices.
enum class DeviceGroupUse : uint8_t { kSums, kMessages };

// A group over the devices of the contexts, made by all ranks of `host` at once. Takes over `host`
// for barriers and tensors in host memory. Null: the plugin has no collectives. Throws
// CommunicatorError. After the loss of a rank, work under way fails within `timeout`, at
// DeviceBackend::synchronize(). A send of a device's tensor returns at once; the tensor may change
// in the stream's order.
std::shared_ptr<Communicator> make_device_group(Context& ctx, std::shared_ptr<Communicator> host,
                                                std::chrono::milliseconds timeout,
                                                DeviceGroupUse use = DeviceGroupUse::kSums);

}  // namespace tandem
