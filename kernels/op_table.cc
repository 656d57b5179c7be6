// The CPU's table, and a context's; while its steps are recorded, that of the spans.
#include "kernels/op_table.h"

#include "kernels/backends/attention_backend.h"
#include "kernels/cpu/ops_cpu.h"
#include "kernels/profiled_ops.h"

namespace tandem {

const OpTable kCpuOps = {cpu::pack_weight, nullptr, nullptr,
#define TANDEM_OP_ENTRY(name, Args, file) cpu::name,
                         TANDEM_OPS(TANDEM_OP_ENTRY)
#undef TANDEM_OP_ENTRY
};

const OpTable& ops_of(const Context& ctx) {
  return profiled_group == nullptr ? device_ops(ctx) : kProfiledOps;
}

const OpTable& device_ops(const Context& ctx) {
  if (const OpTable* const chosen = AttentionScope::table_of(ctx)) return *chosen;
  const DeviceBackend* backend = ctx.backend_or_null();
  return backend == nullptr ? kCpuOps : backend->ops();
}

}  // namespace tandem
