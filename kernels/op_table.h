// The implementations of a device: one function per op, called with checked arguments. The CPU's
// table is a constant; a plugin's comes with its backend (core/device_backend.h).
#pragma once

#include <span>

#include "kernels/core/context.h"
#include "kernels/decoder_ops.h"
#include "kernels/layouts/layout_ops.h"
#include "kernels/op_list.h"
#include "kernels/ops.h"
#include "kernels/sampling_ops.h"
#include "kernels/sound_ops.h"

namespace tandem {

// The data and the scales of a PackedWeight.
struct QuantizedWeight {
  Tensor data, scales;
};

struct OpTable {
  // The data of a PackedWeight: the parts stacked, in the layout of `linear`.
  Tensor (*pack_weight)(Context&, std::span<const MatrixView> parts, DType dtype);
  // The same for a quantised one; null on the CPU.
  QuantizedWeight (*quantize_weight)(Context&, std::span<const MatrixView> parts, Quantization);
  // Whether ops::decoder_step is to run this step; null on the CPU, where it never is.
  bool (*takes_decoder_step)(const Context&, const ops::DecoderStepArgs&);
#define TANDEM_OP_ENTRY(name, Args, file) void (*name)(Context&, const ops::Args&);
  TANDEM_OPS(TANDEM_OP_ENTRY)
#undef TANDEM_OP_ENTRY
};

extern const OpTable kCpuOps;

// The table to call: the device's, or one that records a span around each of its functions.
const OpTable& ops_of(const Context& ctx);
const OpTable& device_ops(const Context& ctx);

}  // namespace tandem
