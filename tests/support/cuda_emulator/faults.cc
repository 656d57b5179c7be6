// Faults that a test asks for: TANDEM_EMULATOR_FAULT. "capture:N": the N-th capture is lost with
// its first kernel; "graph_launch:N": the N-th launch of a graph fails, and the device with it, for
// good. Each value counts from when it is first seen; without it the device is well again.
#include <cstdlib>
#include <mutex>
#include <string>

#include "runtime.h"

namespace cuda_emulator {
namespace {

struct Fault {
  std::mutex mutex;
  std::string text;  // as it was seen last
  std::string kind;
  int left = 0;  // events until it happens; below 0: it has
  cudaError_t error = cudaSuccess;

  void look() {
    const char* now = std::getenv("TANDEM_EMULATOR_FAULT");
    if (text == (now ? now : "")) return;
    text = now ? now : "";
    const auto colon = text.find(':');
    kind = text.substr(0, colon);
    left = colon == std::string::npos ? 1 : std::atoi(text.c_str() + colon + 1);
    error = cudaSuccess;
  }
};

Fault& fault() {
  static auto* one = new Fault;
  return *one;
}

}  // namespace

bool fault_happens(const char* kind) {
  std::lock_guard lock(fault().mutex);
  fault().look();
  if (fault().kind != kind || fault().left <= 0) return false;
  return --fault().left == 0;
}

cudaError_t lose_device(cudaError_t error) {
  std::lock_guard lock(fault().mutex);
  return fault().error = error;
}

cudaError_t device_error() {
  std::lock_guard lock(fault().mutex);
  fault().look();
  return fault().error;
}

}  // namespace cuda_emulator
