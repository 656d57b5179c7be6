// The ranks of a group whose tensors lie on devices.
#pragma once

#include <chrono>
#include <memory>

#include "kernels/core/context.h"
#include "parallel/communicators/communicator.h"

namespace tandem {

// A group over the devices of the contexts, made by all ranks of `host` at once. Takes over `host`
// for barriers and tensors in host memory. Throws CommunicatorError, and InputError (kUnavailable)
// if the plugin has no collectives. After the loss of a rank, work under way fails within
// `timeout`, at DeviceBackend::synchronize().
std::shared_ptr<Communicator> make_device_group(Context& ctx, std::shared_ptr<Communicator> host,
                                                std::chrono::milliseconds timeout);

}  // namespace tandem
