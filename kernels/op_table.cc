// The CPU's table, and a context's.
#include "kernels/op_table.h"

#include "kernels/cpu/ops_cpu.h"

namespace tandem {

const OpTable kCpuOps = {
    cpu::pack_weight,
    nullptr,
    cpu::linear,
    cpu::embedding,
    cpu::layer_norm,
    cpu::gather_rows,
    cpu::write_kv,
    cpu::ragged_attention,
    cpu::paged_attention,
    cpu::copy_blocks,
    cpu::argmax,
    cpu::select,
    cpu::draw,
    cpu::rank_tokens,
    cpu::substitute_ids,
    cpu::begin_sequences,
    cpu::append_tokens,
    cpu::search_beams,
    cpu::move_beam_pages,
    cpu::substitute_pages,
};

const OpTable& ops_of(const Context& ctx) {
  const DeviceBackend* backend = ctx.backend_or_null();
  return backend == nullptr ? kCpuOps : backend->ops();
}

}  // namespace tandem
