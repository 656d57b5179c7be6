// What a rank's steps are given at its start.
#pragma once

namespace tandem {

struct RunnerConfig {
  int block_size = 0;         // tokens, > 0
  int num_device_blocks = 0;  // of the pool that steps compute in
  int num_host_blocks = 0;    // of the swap pool
  int max_drafts = 0;         // of a sequence in a step
  // Read on a device only.
  bool record_steps = true;  // steps of a shape seen before are replayed (DeviceBackend::record)
  int max_sequences = 0;     // DeviceDecoder's
};

}  // namespace tandem
