#include "kernels/core/tensor.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>

namespace tandem {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kHugePage = size_t{2} << 20;

int64_t product(const Shape& shape, size_t from = 0) {
  int64_t n = 1;
  for (size_t i = from; i < shape.size(); ++i) n *= shape[i];
  return n;
}

// What fills huge pages gets them; the rest of it keeps small ones, so that none is mostly empty.
std::shared_ptr<void> allocate(size_t bytes) {
  const size_t huge = bytes / kHugePage * kHugePage;
  void* p = nullptr;
  if (posix_memalign(&p, huge > 0 ? kHugePage : kAlignment, std::max<size_t>(bytes, 1)) != 0)
    throw std::bad_alloc();
  if (huge > 0) madvise(p, huge, MADV_HUGEPAGE);  // a wish; refused, it costs speed only
  return {p, std::free};
}

}  // namespace

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + std::to_string(shape[i]);
  return out + "]";
}

Tensor::Tensor(Shape shape, DType dtype) : shape_(std::move(shape)), dtype_(dtype) {
  row_stride_ = product(shape_, 1);
  storage_ = allocate(bytes());
  data_ = storage_.get();
}

Tensor Tensor::zeros(Shape shape, DType dtype) {
  Tensor t(std::move(shape), dtype);
  std::memset(t.data_, 0, t.bytes());
  return t;
}

Tensor Tensor::borrow(void* data, Shape shape, DType dtype) {
  Tensor t;
  t.data_ = data;
  t.shape_ = std::move(shape);
  t.row_stride_ = product(t.shape_, 1);
  t.dtype_ = dtype;
  return t;
}

Tensor Tensor::adopt(std::shared_ptr<void> storage, void* data, Shape shape, DType dtype,
                     Device device) {
  Tensor t = borrow(data, std::move(shape), dtype);
  t.storage_ = std::move(storage);
  t.device_ = device;
  return t;
}

int64_t Tensor::size() const { return shape_.empty() ? 0 : product(shape_); }

bool Tensor::contiguous() const {
  return shape_.empty() || shape_[0] <= 1 || row_stride_ == product(shape_, 1);
}

Tensor Tensor::rows(int64_t begin, int64_t end) const {
  TANDEM_CHECK_LE(0, begin);
  TANDEM_CHECK_LE(begin, end);
  TANDEM_CHECK_LE(end, dim(0));
  Tensor t = *this;
  t.shape_[0] = end - begin;
  t.data_ =
      static_cast<std::byte*>(data_) + static_cast<size_t>(begin * row_stride_) * size_of(dtype_);
  return t;
}

Tensor Tensor::columns(int64_t begin, int64_t end) const {
  TANDEM_CHECK_EQ(rank(), 2);
  TANDEM_CHECK_LE(0, begin);
  TANDEM_CHECK_LE(begin, end);
  TANDEM_CHECK_LE(end, dim(1));
  Tensor t = *this;
  t.shape_[1] = end - begin;
  t.data_ = static_cast<std::byte*>(data_) + static_cast<size_t>(begin) * size_of(dtype_);
  return t;
}

Tensor Tensor::reshape(Shape shape) const {
  TANDEM_CHECK(contiguous());
  TANDEM_CHECK_EQ(product(shape), size());
  Tensor t = *this;
  t.shape_ = std::move(shape);
  t.row_stride_ = product(t.shape_, 1);
  return t;
}

Tensor Tensor::as(DType dtype) const {
  TANDEM_CHECK_EQ(size_of(dtype), size_of(dtype_));
  Tensor t = *this;
  t.dtype_ = dtype;
  return t;
}

}  // namespace tandem
