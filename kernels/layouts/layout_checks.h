// The checks of the ops of kernels/layouts/layout_ops.h: what is wrong is a caller's input, so they
// throw InputError with the argument's name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "kernels/core/context.h"
#include "kernels/layouts/strided_attention.h"

namespace tandem::layouts {

[[noreturn]] void refuse(const std::string& argument, const std::string& why);

// A shape to ask for; -1: any size.
void check_dims(const std::string& name, const Tensor& t, const Shape& dims);
void check_type(const std::string& name, const Tensor& t, std::initializer_list<DType> types);
// The same, on the context's device.
void check_data(const Context& ctx, const std::string& name, const Tensor& t, const Shape& dims,
                std::initializer_list<DType> types);
// Of activations.
void check_rows(const Context& ctx, const std::string& name, const Tensor& t, const Shape& dims);
// From dimension `first` on, the last of which is a head's, there is something; a head has at most
// kMostHeadDim elements, which fit a device's shared memory.
constexpr int64_t kMostHeadDim = 8192;
void check_widths(const std::string& name, const Tensor& t, int first);
// Without gaps between rows.
void check_dense(const std::string& name, const Tensor& t);
// Keys and values.
void check_keys(const Context& ctx, const std::string& name, const Tensor& t, const Shape& dims);

// Of a descriptor: int32 on the host.
const int32_t* check_integers(const std::string& name, const Tensor& t, int64_t size);
// Offsets from 0 that do not fall. Returns how many ranges they have.
int64_t check_offsets(const std::string& name, const Tensor& t);
// Their last one; `of` has so many.
void check_end(const std::string& name, const Tensor& t, int64_t end, const std::string& of);
// The ranges of `name` are as many as those of qo_indptr.
void check_requests(const std::string& name, int64_t found, int64_t requests);
// " at index 3".
std::string at_index(int64_t i);

CacheSides check_cache(const Context& ctx, const PagedKvCache& cache);
// `ckv`, `kpe`: the widths of two other arguments, and their names.
struct LatentWidths {
  int64_t ckv, kpe;
  std::string ckv_name, kpe_name;
};
CacheSides check_cache(const Context& ctx, const MlaCache& cache, const LatentWidths& widths);
// Returns the number of requests. `prefix`: of the names, "level1." in a cascade.
int64_t check_table(const KvPageTable& table, const CacheSides& sides,
                    const std::string& prefix = {});

// Masks and bias, after the indices.
void check_scores(const Context& ctx, const StridedAttention& attention);
// The outputs of `rows` queries.
void check_outputs(const Context& ctx, const Tensor& out, const Tensor& lse, int64_t rows,
                   int64_t heads, int64_t head_dim);

}  // namespace tandem::layouts
