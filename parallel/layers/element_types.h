// Element types of files that nothing computes with. Their values become floats, as by
// Tensor.to(torch.float32).
#pragma once

#include "parallel/layers/weights.h"

namespace tandem {

// f32, f16 or bf16: layers take them as they are.
bool is_layer_type(const HostTensor& t);
// Whether the type has numbers that can become f32. False of complex numbers, of types of less than
// a byte, and of those that torch does not convert.
bool becomes_float(const HostTensor& t);
// The values in f32, in memory of their own. `t`: becomes_float().
HostTensor as_float(const HostTensor& t);
// Of a tensor in f32, f16 or bf16 on the host: itself if it is f32, else its values in f32.
Tensor to_float(const Tensor& t);

}  // namespace tandem
