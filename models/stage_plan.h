// How the layers of a model lie over the stages of a pipeline: encoder layers first, then decoder
// layers (docs/parallel.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/checkpoint/checkpoint.h"
#include "models/config/config.h"
#include "parallel/layers/build.h"

namespace tandem {

// Parameters of each layer and of what stands beside the layers.
struct LayerSizes {
  std::vector<uint64_t> encoder, decoder;
  uint64_t encoder_table = 0;  // embeddings, with the first layer of the side; 0: it reads frames
  uint64_t decoder_table = 0;
  uint64_t head = 0;       // with the last layer
  bool one_table = false;  // both sides look rows up in the same one
};

struct Stage {
  LayerRange encoder, decoder;
  uint64_t parameters = 0;
  uint64_t computed = 0;    // of those, not of tables that rows are looked up in
  uint64_t of_encoder = 0;  // of the parameters: layers, which are int8 in int4

  bool encodes() const { return !encoder.empty(); }
  bool decodes() const { return !decoder.empty(); }
  std::string text() const;  // "encoder layers 0 to 5, decoder layer 0"
  // Of weights, on each of the stage's ranks. Other tensors than layers' are counted roughly.
  uint64_t bytes_of_rank(DType dtype, int ranks) const;
};

// By the names of the checkpoint's tensors. Layers that have none there count alike.
LayerSizes layer_sizes(const ModelConfig& config, const Checkpoint& checkpoint);
// Each stage has a layer at least, and the last one a decoder's. layers: of each stage, both sides
// together. Without, the stage that computes with the most parameters has as few as possible.
// Throws InputError (--pipeline-parallel-size, --pipeline-layers).
std::vector<Stage> plan_stages(const LayerSizes& sizes, int stages,
                               std::span<const int32_t> layers = {});

}  // namespace tandem
