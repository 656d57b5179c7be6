// What steps of one kernel share: their barrier, tickets, and the places of layers.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "kernels/core/device_backend.h"
#include "kernels/cuda/step/step_params.h"

namespace tandem::cuda {

// Owned by the backend, used by the worker's thread. Recorded steps point into it, so nothing that
// it has given out moves or goes before it does.
class StepMemory {
 public:
  // Throws InputError (kResource).
  explicit StepMemory(DeviceBackend& backend);
  StepMemory(const StepMemory&) = delete;
  StepMemory& operator=(const StepMemory&) = delete;

  step::BarrierPlaces barrier() const;
  // No block waits any more, in no launch.
  void abort();
  // So many words that are 0 between uses. Allocates if there are not as many yet, which refuses a
  // recording.
  int32_t* tickets(int64_t count);
  // The same bytes in device memory: those of a step before, or new ones, which refuses a
  // recording.
  const step::LayerPlaces* places(const std::vector<step::LayerPlaces>& layers);

 private:
  struct Known {
    std::vector<std::byte> bytes;
    Tensor there;
  };

  DeviceBackend& backend_;
  Tensor words_;     // of the barrier, on the device
  Tensor for_host_;  // page-locked: aborted, failed
  std::vector<Tensor> tickets_;
  std::vector<Known> known_;
  std::shared_ptr<void> check_;  // that no wait was given up
};

}  // namespace tandem::cuda
