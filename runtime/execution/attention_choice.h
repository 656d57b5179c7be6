// --attention-backend: what a worker computes attention with.
#pragma once

#include <memory>

#include "kernels/backends/attention_backend.h"
#include "runtime/protocol/engine_config.pb.h"

namespace tandem {

// Throws InputError naming the flag for a name that there is not.
AttentionBackend attention_backend_of(const proto::LoadingConfig& loading);

// Null: "auto", the device's own functions. Throws InputError if that device has no such backend.
// Logs the backend, and the ops that it lacks.
std::unique_ptr<AttentionTable> make_attention(const proto::LoadingConfig& loading,
                                               const Context& ctx);

}  // namespace tandem
