// A decoder as ops::decoder_step takes it: all layers in one call, where a device has a kernel for
// that. Used from the worker's thread.
#pragma once

#include <optional>
#include <vector>

#include "models/blocks/layers.h"
#include "models/model.h"

namespace tandem {

class DecoderParts {
 public:
  // Absent where a layer has what the op has not, or layers differ. `last`: the norm behind all
  // layers, if there is one.
  static std::optional<DecoderParts> of(const std::vector<DecoderLayer>& layers,
                                        const std::optional<Norm>& last);
  // The rows [T, d_model] behind all layers and norms. Empty, and nothing has run, where the device
  // does not take this step.
  Tensor decode(Context& ctx, const Residual& state, const StepTensors& in,
                const KvCache& cache) const;

 private:
  ops::DecoderShape shape_;
  std::vector<ops::DecoderLayerParts> layers_;
  std::optional<Norm> last_;
};

}  // namespace tandem
