// Device to table.
#include "kernels/op_table.h"

#include <atomic>

#include "kernels/cpu/ops_cpu.h"

namespace tandem {
namespace {

constexpr size_t kDevices = 2;
std::atomic<const OpTable*> tables[kDevices] = {&kCpuOps, nullptr};

std::atomic<const OpTable*>& slot(Device device) {
  TANDEM_CHECK_LT(static_cast<size_t>(device), kDevices);
  return tables[static_cast<size_t>(device)];
}

}  // namespace

const OpTable kCpuOps = {
    cpu::pack_weight, cpu::linear,   cpu::embedding,        cpu::layer_norm,
    cpu::gather_rows, cpu::write_kv, cpu::ragged_attention, cpu::paged_attention,
    cpu::copy_blocks, cpu::argmax,
};

void register_ops(Device device, const OpTable& table) { slot(device).store(&table); }

const OpTable& ops_of(const Context& ctx) {
  const OpTable* table = slot(ctx.device()).load(std::memory_order_acquire);
  TANDEM_CHECK(table != nullptr, "the device's plugin is not loaded");
  return *table;
}

}  // namespace tandem
