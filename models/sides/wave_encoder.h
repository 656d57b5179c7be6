// wav2vec 2.0 (Baevski et al. 2020), an encoder of a clip's samples. Convolutions make frames, one
// more convolution gives positions, and transformer layers follow. Some models shorten the result
// by further convolutions.
#pragma once

#include <optional>
#include <vector>

#include "models/blocks/convolution.h"
#include "models/blocks/feed_forward.h"
#include "models/blocks/pictures/clip_attention.h"
#include "models/config/config_reader.h"
#include "models/sides/sides.h"

namespace tandem {

// d_model: of the layers; `width`: of the result.
struct WaveEncoderConfig : SideSizes {
  std::vector<ConvolutionShape> steps;  // over samples; at least one
  Bias step_bias = Bias::kNone;
  bool step_norms = false;  // behind each step; else each feature of the first is normed by itself
  Activation step_activation = Activation::kGelu;
  int position_width = 0, position_groups = 0;  // of the convolution
  bool pre_norm = false;                        // else post-norm, with a norm before the layers
  float eps = 0;
  int adapters = 0;  // convolutions behind the layers
  ConvolutionShape adapter;
  int width = 0;

  int64_t positions_of(int64_t samples) const;
  // The most elements of activations alive at once, for a position of the result.
  int64_t scratch_values() const;
};

// HuggingFace's keys of Wav2Vec2Config. Throws InputError naming the key.
WaveEncoderConfig read_wave_encoder(const ConfigReader& in);

class WaveEncoder {
 public:
  // All of it is on each rank, the layers tensor parallel.
  WaveEncoder(const Weights& w, const Build& b, const WaveEncoderConfig& config);
  // [samples, 1] f32 → [encoder tokens, width].
  Tensor forward(const StepTensors& in) const;

 private:
  struct Rows {
    Tensor x, starts;
  };
  struct Step {
    Convolution convolution;
    std::optional<Norm> norm;
  };
  // Each feature over its clip.
  struct FeatureNorm {
    Tensor weight, bias;
  };
  // Linear, with the input's features shared by the ranks.
  struct Projection {
    Range part;
    RowParallelLinear linear;
    Tensor forward(const Tensor& x) const {
      return linear.forward(x.columns(part.begin, part.end));
    }
  };
  // A convolution in groups of features, of as many rows as there are.
  class Places {
   public:
    Places(const Weights& w, const Build& b, const WaveEncoderConfig& c);
    Tensor forward(const Tensor& x, const Tensor& starts) const;

   private:
    Build build_;
    int64_t features_;  // of a group
    int width_;
    Activation activation_;
    std::vector<PackedWeight> weights_;
    std::vector<Tensor> biases_;
  };
  struct Layer {
    ClipAttention attention;
    Norm attention_norm;
    FeedForward feed_forward;
    Norm final_norm;
  };
  struct Adapter {
    std::optional<Projection> projection;
    std::optional<Norm> norm;
    std::vector<GluConvolution> steps;
  };

  static Projection projection_of(const Weights& w, const Build& b, int64_t in, int64_t out);
  Rows convolved(const StepTensors& in) const;
  Tensor post_normed(const Tensor& x, const Tensor& places, const OwnSequences& clips) const;
  Tensor pre_normed(const Tensor& x, const Tensor& places, const OwnSequences& clips) const;
  Tensor adapted(Rows rows, const StepTensors& in) const;

  Build build_;
  WaveEncoderConfig config_;
  Heads heads_;
  std::vector<Step> steps_;
  std::optional<FeatureNorm> first_norm_;
  Norm projection_norm_;
  Projection projection_;
  Places places_;
  Norm norm_;  // before the layers; with pre-norm behind them
  std::vector<Layer> layers_;
  Adapter adapter_;
};

}  // namespace tandem
