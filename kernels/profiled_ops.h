// Ops with spans around them (base/profile): the table of a context whose steps are recorded.
#pragma once

#include "base/profile/profile.h"
#include "kernels/op_table.h"

namespace tandem {

// Each function calls device_ops()'s of the same name. On a device a span covers only the launch.
extern const OpTable kProfiledOps;

}  // namespace tandem
