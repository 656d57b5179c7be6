// CUDA's ops (kernels/op_list.h) and their shared helpers on the host.
#pragma once

#include <cuda_runtime.h>

#include <span>

#include "kernels/core/context.h"
#include "kernels/cuda/host/launch_stream.h"
#include "kernels/op_table.h"

namespace tandem::cuda {

Tensor pack_weight(Context& ctx, std::span<const MatrixView> parts, DType dtype);
QuantizedWeight quantize_weight(Context& ctx, std::span<const MatrixView> parts,
                                Quantization quantization);
bool takes_decoder_step(const Context& ctx, const ops::DecoderStepArgs& args);
#define TANDEM_OP_FUNCTION(name, Args, file) void name(Context& ctx, const ops::Args& args);
TANDEM_OPS(TANDEM_OP_FUNCTION)
#undef TANDEM_OP_FUNCTION

// out = x w^T + bias, by cuBLASLt; w is [n, k], its rows perhaps padded. In e4m3 x and w are bytes.
// Returns false and does nothing if the library cannot multiply these.
[[nodiscard]] bool multiply(Context& ctx, const Tensor& x, const Tensor& w, int64_t k,
                            const Tensor& bias, bool relu, const Tensor& out);

// In place.
void activate_rows(Context& ctx, Activation activation, const Tensor& x);

// A row of a layer norm fits the shared memory that every device gives by default.
constexpr int kMaxNormFeatures = 12000;

LaunchStream stream_of(Context& ctx);
// Stops if the launch of that op failed. (Failures inside a kernel show at synchronize().)
void after_launch(const char* op);

extern const OpTable kCudaOps;

}  // namespace tandem::cuda
