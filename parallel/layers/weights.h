// How layers find their tensors: by scope, as in `Linear(w / "fc1", ...)`. Building a layer loads
// its shard. Tensors that no layer has read are named in the log (models/load_model.h).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "base/error.h"
#include "kernels/core/tensor.h"

namespace tandem {

// A tensor of a checkpoint, in mapped memory: row-major and contiguous, possibly unaligned.
struct HostTensor {
  std::string name;
  std::string file;
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  Shape shape;
  std::shared_ptr<const void> keep_alive;  // the mapping
  size_t bytes = 0;                        // of the data
  // torch's name of an element type that DType lacks (such as "float64"); then `dtype` means
  // nothing. Its conversion: parallel/layers/element_types.h.
  std::string foreign_dtype;

  std::string dtype_name() const { return foreign_dtype.empty() ? name_of(dtype) : foreign_dtype; }
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // The tensor of that full name, marked as read; nullptr if there is none.
  virtual const HostTensor* find(const std::string& name) = 0;
  // Marks all tensors whose name begins so as read. Does nothing in a source that does not track
  // reads.
  virtual void skip(const std::string&) {}
  // For error messages: the directory or file.
  virtual std::string location() const = 0;
  // `t` in a type that layers take: itself, or its values in f32, converted once for all holders.
  // Throws InputError for a type without numbers.
  HostTensor in_layer_type(const HostTensor& t);

 private:
  // By address, size and type.
  std::map<std::tuple<const std::byte*, size_t, std::string>, std::weak_ptr<const void>> converted_;
};

// A scope in a WeightSource. Cheap to copy.
class Weights {
 public:
  explicit Weights(WeightSource& source, std::string scope = {})
      : source_(&source), scope_(std::move(scope)) {}

  Weights operator/(std::string_view child) const {
    return Weights(*source_,
                   scope_.empty() ? std::string(child) : scope_ + "." + std::string(child));
  }
  Weights operator/(int index) const { return *this / std::to_string(index); }
  const std::string& scope() const { return scope_; }
  WeightSource& source() const { return *source_; }

  // The tensor `name` of this scope, in f32, f16 or bf16. Throws InputError naming the tensor if it
  // is missing, of another shape, or of a type that does not become f32.
  HostTensor get(std::string_view name, const Shape& shape) const;
  // The same, but nullopt if it is missing.
  std::optional<HostTensor> find(std::string_view name, const Shape& shape) const;
  // Marks a tensor as read, whatever it is: for tensors that a model knows and does not need.
  void find_any(std::string_view name) const { source_->find((*this / name).scope()); }
  // The same of all tensors in the scope.
  void skip() const { source_->skip(scope_ + "."); }

 private:
  WeightSource* source_;
  std::string scope_;
};

// Elements [begin, begin + count) of a flat tensor, widened to f32.
Tensor to_float(const HostTensor& t, int64_t begin, int64_t count);
inline Tensor to_float(const HostTensor& t) {
  int64_t n = 1;
  for (int64_t d : t.shape) n *= d;
  return to_float(t, 0, n);
}

}  // namespace tandem
