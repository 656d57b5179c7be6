// Silero's network of voice activity at 16 kHz: samples → how likely each 32 ms of them are speech.
// The weights are those of silero_vad_16k.safetensors in the Python package silero-vad 6.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/ops.h"

namespace tandem {

// Read-only, shared by all streams.
class VoiceWeights {
 public:
  // Throws InputError naming the file and the tensor.
  static std::shared_ptr<const VoiceWeights> load(const std::filesystem::path& file);
  // The package's file in the Python environments of this machine: that of VIRTUAL_ENV, that of
  // TANDEM_PYTHON, the user's, the system's. Nothing: there is none.
  static std::optional<std::filesystem::path> find_installed();

 private:
  friend class VoiceNetwork;
  struct Layer {
    PackedWeight weight;
    Tensor bias;  // [out] f32, or empty
  };
  Layer spectrum_;         // [2 * 129, 256]: real parts, then imaginary ones
  Layer convolutions_[4];  // [out, in * 3]
  Layer input_, hidden_;   // [4 * 128, 128] of the LSTM: input, forget, cell and output gates
  Tensor head_;            // [128] f32
  float head_bias_ = 0;
};

// One stream of sound. Used by one thread.
class VoiceNetwork {
 public:
  static constexpr int kRate = 16000;
  static constexpr int64_t kWindow = 512;  // samples of a probability

  explicit VoiceNetwork(std::shared_ptr<const VoiceWeights> weights);
  // The next samples, whole windows; the probability of each is appended to `out`.
  void add(std::span<const float> samples, std::vector<float>& out);

 private:
  Tensor spectra(std::span<const float> samples);
  Tensor convolve(int layer, const Tensor& x, int64_t windows);
  void recur(const Tensor& x, std::vector<float>& out);

  std::shared_ptr<const VoiceWeights> weights_;
  Context ctx_;
  std::vector<float> last_;   // samples before the next window
  std::vector<float> state_;  // of the LSTM's cells
  Tensor hidden_;             // [1, 128] f32
};

}  // namespace tandem
