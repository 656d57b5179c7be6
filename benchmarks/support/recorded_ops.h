// Single ops as a step of decoding has them: many calls in one recording, each on its own copy of
// what it reads, so that nothing is left in the caches from the call before; the device's time by
// marks, of many replays.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "kernels/core/context.h"
#include "kernels/core/plugin.h"

namespace tandem::bench {

// Seconds of one call: the median of the samples, and what a tenth of them is below and above.
struct DeviceTiming {
  double median = 0, low = 0, high = 0;
};

inline DeviceTiming quantiles(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double share) {
    return samples[static_cast<size_t>(share * static_cast<double>(samples.size() - 1) + 0.5)];
  };
  return {at(0.5), at(0.1), at(0.9)};
}

class RecordedOps {
 public:
  // `dependent`: kernels are launched before those in front of them have ended (docs/gpu.md).
  RecordedOps(int device, DType dtype, bool dependent, int samples)
      : samples_(samples), block_(size_t{1} << 22) {
    if (cuda_plugin() == nullptr) throw std::runtime_error(cuda_plugin_problem());
    setenv("TANDEM_DEPENDENT_LAUNCH", dependent ? "1" : "0", 1);
    ctx_ = std::make_unique<Context>(1, cuda_plugin()->make_backend(device), dtype);
    uint32_t state = 1;
    for (size_t i = 0; i + size_of(dtype) <= block_.size(); i += size_of(dtype)) {
      state = state * 1664525u + 1013904223u;
      put(static_cast<float>(static_cast<int32_t>(state)) * 0x1p-31f, dtype, &block_[i]);
    }
  }

  Context& ctx() { return *ctx_; }
  DeviceBackend& backend() { return ctx_->backend(); }
  DType dtype() const { return ctx_->activations(); }

  // On the device, for as long as it is held: numbers in [-1, 1) of the activations' type.
  Tensor random(const Shape& shape) {
    const Tensor there = backend().allocate(shape, dtype());
    backend().load(there, ctx_->pool(), [&](size_t begin, size_t bytes, std::byte* to) {
      copy_block(begin, bytes, to);
    });
    return there;
  }
  Tensor uploaded(const std::vector<int32_t>& values) {
    const Tensor there = backend().allocate({std::ssize(values)}, DType::kI32);
    backend().copy_in(Tensor::borrow(values), there);
    return there;
  }
  Tensor filled(const Shape& shape, float value) {
    const Tensor host(shape, DType::kF32);
    std::fill_n(host.data<float>(), host.size(), value);
    const Tensor there = backend().allocate(shape, DType::kF32);
    backend().copy_in(host, there);
    return there;
  }
  // The numbers of random() in host memory, [rows, columns].
  std::vector<std::byte> host_random(int64_t elements) const {
    std::vector<std::byte> out(static_cast<size_t>(elements) * size_of(ctx_->activations()));
    copy_block(0, out.size(), out.data());
    return out;
  }

  // So many copies of `bytes` that the caches keep none of them; twelve layers' at most twelvefold.
  static int copies_of(double bytes, double rotated_bytes) {
    return static_cast<int>(std::clamp(std::ceil(rotated_bytes / bytes), 2.0, 96.0));
  }

  // A recording of call(0) ... call(calls - 1), after one run of them.
  DeviceTiming time(int calls, const std::function<void(int)>& call) {
    const auto all = [&] {
      for (int i = 0; i < calls; ++i) call(i);
    };
    backend().begin_step();
    all();
    backend().synchronize();
    backend().begin_step();
    const uint64_t key = ++keys_;
    if (!backend().record(key, all)) throw std::runtime_error("a step is not recorded");
    const DeviceTiming out = sampled([&] { backend().replay(key); }, calls);
    backend().forget_recordings();
    return out;
  }
  // The same without a recording: for single long calls.
  DeviceTiming time_eager(const std::function<void()>& call) {
    backend().begin_step();
    call();
    return sampled(call, 1);
  }

 private:
  static constexpr double kShortestSample = 300e-6;

  static void put(float value, DType dtype, std::byte* to) {
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    if (dtype == DType::kF32) {
      std::memcpy(to, &bits, sizeof(bits));
    } else {  // of f16 a number of about 1 too: its exponent is not bf16's, but not an infinity's
      const auto half = static_cast<uint16_t>(
          dtype == DType::kBF16 ? bits >> 16
                                : (bits >> 16 & 0x8000u) | 0x3000u | (bits >> 8 & 0x7ffu));
      std::memcpy(to, &half, sizeof(half));
    }
  }
  void copy_block(size_t begin, size_t bytes, std::byte* to) const {
    for (size_t done = 0; done < bytes;) {
      const size_t from = (begin + done) % block_.size();
      const size_t part = std::min(bytes - done, block_.size() - from);
      std::memcpy(to + done, block_.data() + from, part);
      done += part;
    }
  }
  double seconds_of(const std::function<void()>& run, int times) {
    const uint64_t from = backend().mark();
    for (int i = 0; i < times; ++i) run();
    const uint64_t to = backend().mark();
    backend().wait(to);
    return backend().seconds_between(from, to);
  }
  DeviceTiming sampled(const std::function<void()>& run, int calls) {
    seconds_of(run, 1);
    const double once = std::max(seconds_of(run, 1), 1e-9);
    const int times = static_cast<int>(std::clamp(std::ceil(kShortestSample / once), 1.0, 100.0));
    std::vector<double> samples;
    for (int i = 0; i < samples_; ++i) samples.push_back(seconds_of(run, times) / times / calls);
    return quantiles(std::move(samples));
  }

  int samples_;
  std::vector<std::byte> block_;
  std::unique_ptr<Context> ctx_;
  uint64_t keys_ = 0;
};

}  // namespace tandem::bench
