// A dense array in memory: up to five dimensions, row-major. The leading dimension may be strided,
// so a column range of a matrix is a Tensor too. Copying a Tensor shares its storage. Not
// synchronised: one thread writes, or many read.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "kernels/core/types.h"

namespace tandem {

using Shape = std::vector<int64_t>;

// Where a tensor's memory lies. Only the device's ops may touch kCuda memory.
enum class Device : uint8_t { kCpu, kCuda };

std::string to_string(const Shape& shape);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kI8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};

class Tensor {
 public:
  Tensor() = default;
  // Uninitialised, 64-byte aligned; large tensors ask the kernel for huge pages.
  Tensor(Shape shape, DType dtype);
  static Tensor zeros(Shape shape, DType dtype);
  // Borrows memory that outlives the tensor.
  static Tensor borrow(void* data, Shape shape, DType dtype);
  // Memory of a device; `storage` frees it when the last tensor on it is destroyed.
  static Tensor adopt(std::shared_ptr<void> storage, void* data, Shape shape, DType dtype,
                      Device device);
  template <class T>
  static Tensor borrow(std::span<T> data) {
    return borrow(const_cast<std::remove_const_t<T>*>(data.data()),
                  {static_cast<int64_t>(data.size())}, DTypeOf<std::remove_const_t<T>>::value);
  }
  template <class T>
  static Tensor borrow(const std::vector<T>& data) {
    return borrow(std::span<const T>(data));
  }

  bool empty() const { return data_ == nullptr; }
  const Shape& shape() const { return shape_; }
  int rank() const { return static_cast<int>(shape_.size()); }
  int64_t dim(int i) const { return shape_[static_cast<size_t>(i)]; }
  int64_t size() const;  // number of elements
  size_t bytes() const { return static_cast<size_t>(size()) * size_of(dtype_); }
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }
  // Elements from one row (index of dimension 0) to the next.
  int64_t row_stride() const { return row_stride_; }
  bool contiguous() const;

  void* raw() const { return data_; }
  template <class T>
  T* data() const {
    TANDEM_CHECK_EQ(static_cast<int>(dtype_), static_cast<int>(DTypeOf<T>::value));
    return static_cast<T*>(data_);
  }
  template <class T>
  T* row(int64_t i) const {
    return data<T>() + i * row_stride_;
  }

  // Views that share the storage.
  Tensor rows(int64_t begin, int64_t end) const;     // [begin, end) of dimension 0
  Tensor columns(int64_t begin, int64_t end) const;  // of a matrix
  Tensor reshape(Shape shape) const;                 // contiguous only, same size
  Tensor as(DType dtype) const;                      // the same bits, elements of equal size

 private:
  std::shared_ptr<void> storage_;
  void* data_ = nullptr;
  Shape shape_;
  int64_t row_stride_ = 0;
  DType dtype_ = DType::kF32;
  Device device_ = Device::kCpu;
};

}  // namespace tandem
