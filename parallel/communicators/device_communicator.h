// The ranks of a group whose tensors lie on devices.
#pragma once

#include <chrono>
#include <memory>

#include "kernels/core/context.h"
#include "parallel/communicators/communicator.h"

namespace tandem {

// A group over the devices of the contexts, made by all ranks of `host` at once; takes `host` over
// for what stays on the hosts (barriers, tensors in host memory). Throws CommunicatorError, and
// InputError (kUnavailable) where the plugin has no collectives. What is on its way when a rank is
// lost fails within `timeout`, at DeviceBackend::synchronize().
std::shared_ptr<Communicator> make_device_group(Context& ctx, std::shared_ptr<Communicator> host,
                                                std::chrono::milliseconds timeout);

}  // namespace tandem
