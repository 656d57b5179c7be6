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

struct StageOptions {
  int stages = 1;
  // Of each stage, both sides together. Without, the largest stage has as few parameters as
  // possible; with both lengths below, the plan is the fastest for such requests.
  std::span<const int32_t> layers = {};
  bool encoder = true;  // false: other ranks run it (encoder_alone())
  // Of a usual request; 0: not known.
  int input_tokens = 0, output_tokens = 0;
};
// Each stage has a layer at least, and the last one a decoder's. Throws InputError
// (--pipeline-parallel-size, --pipeline-layers, --encoder-ranks).
std::vector<Stage> plan_stages(const LayerSizes& sizes, const StageOptions& options);
// All of the encoder, for a rank that runs it for others. What makes keys and values of
// cross-attention is counted as a decoder layer's eighth (of its sixteen squares of the width,
// two).
Stage encoder_alone(const LayerSizes& sizes);

}  // namespace tandem
