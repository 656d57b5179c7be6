// An encoder of spectra (Fast Conformer, Rekesh et al. 2023; HuggingFace's ParakeetEncoder):
// convolutions over time and frequency that shorten a clip, then layers of attention by distance
// and of convolutions, between two halves of feed-forward layers.
#pragma once

#include <optional>
#include <vector>

#include "kernels/sound_ops.h"
#include "models/blocks/attention/relative_attention.h"
#include "models/blocks/convolution.h"
#include "models/blocks/feed_forward.h"
#include "models/config/config_reader.h"
#include "models/sides/sides.h"

namespace tandem {

struct ConformerConfig : SideSizes {
  int bins = 0;                 // of a frame
  int channels = 0;             // of the first convolutions
  ConvolutionShape step;        // of each of them, in both directions; without features
  std::vector<int> columns;     // of the frames, and behind each of them
  int convolution_width = 0;    // of the layers'; odd
  int positions = 0;            // of the longest clip
  bool scaled = false;          // the layers' input, by the root of d_model
  Bias bias = Bias::kRequired;  // of linear layers
  bool convolution_bias = true;

  int64_t positions_of(int64_t frames) const;
  // The most elements of activations alive at once, for a position.
  int64_t scratch_values() const;
};

// HuggingFace's keys of ParakeetEncoderConfig. Throws InputError naming the key.
ConformerConfig read_conformer(const ConfigReader& in);

// A convolution of each channel by itself, over rows and columns.
class DepthwiseConvolution {
 public:
  // weight [channels, values of the kernel], row by row; bias [channels].
  DepthwiseConvolution(const Build& b, const Tensor& weight, const Tensor& bias, int height,
                       int width);
  // As ops::depthwise_conv; `args` without weight, bias and sizes of the kernel.
  void run(ops::DepthwiseConvArgs args) const;

 private:
  Build build_;
  Tensor weight_, bias_;
  int height_, width_;
};

class ConformerEncoder {
 public:
  // All of it is on each rank; attention and feed-forward layers are tensor parallel.
  ConformerEncoder(const Weights& w, const Build& b, const ConformerConfig& config);
  // [frames, bins] f32 → [encoder tokens, d_model].
  Tensor forward(const StepTensors& in) const;

 private:
  // Time and frequency are halved by each step; channels change from the second one on.
  class Subsampling {
   public:
    Subsampling(const Weights& w, const Build& b, const ConformerConfig& c);
    Tensor forward(const StepTensors& in) const;

   private:
    Build build_;
    ConformerConfig config_;
    std::vector<DepthwiseConvolution> steps_;
    std::vector<PackedWeight> mixes_;  // of channels, behind all but the first
    std::vector<Tensor> mix_biases_;
    Range part_;  // of the last one's features: this rank's
    std::optional<RowParallelLinear> linear_;
  };
  class Mixing {  // the layers' convolutions
   public:
    Mixing(const Weights& w, const Build& b, const ConformerConfig& c);
    Tensor forward(const Tensor& x, const Tensor& starts) const;

   private:
    Build build_;
    int width_;
    Activation activation_;
    GluConvolution first_;
    std::optional<DepthwiseConvolution> middle_;
    Convolution last_;
  };
  struct Layer {
    Layer(const Weights& w, const Build& b, const ConformerConfig& c);
    Norm first_norm, attention_norm, mixing_norm, last_norm, out_norm;
    FeedForward first, last;  // half of what they make is added
    RelativeAttention attention;
    Mixing mixing;
  };

  Build build_;
  Subsampling subsampling_;
  Tensor distances_;
  std::vector<Layer> layers_;
};

}  // namespace tandem
