// The type that a worker computes in: whether its weights fit the memory, and a line for the log.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "kernels/core/tensor.h"
#include "models/checkpoint/checkpoint.h"
#include "models/config/config.h"
#include "models/stage_plan.h"

namespace tandem {

// Checks that one rank's part of the weights fits `available` bytes. Throws InputError (kResource)
// that names --dtype, both sizes, and the types that fit. The other ranks of a replica may be on
// other hosts, so that each rank checks its own part.
//   ranks: that share the model, or with stages the layers of `stage`, this rank's
void check_weights_fit(const ModelConfig& config, const Checkpoint& checkpoint, DType dtype,
                       int ranks, size_t available, const Stage* stage = nullptr);

// What --dtype calls a type that other programs call `name`: "fp16" is float16, and CTranslate2's
// "int8_float16" is int8. Every other name is itself.
std::string dtype_named(const std::string& name);

// For the log: the type, whether tokens are HuggingFace's, and which --dtype is faster or exact.
//   stored: the type of the checkpoint's files, where config.json names it.
std::string describe_compute_type(DType dtype, std::optional<DType> stored, bool on_cpu);

}  // namespace tandem
