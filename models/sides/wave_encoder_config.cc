// The configuration of encoders of samples.
#include <algorithm>
#include <array>
#include <string>

#include "models/sides/wave_encoder.h"

namespace tandem {
namespace {

constexpr int kMostSteps = 32;

// A number for each convolution over samples.
std::vector<int> read_list(const ConfigReader& in, const char* key, std::vector<int> otherwise) {
  const nlohmann::json* value = in.find(key);
  if (value == nullptr) return otherwise;
  const auto valid = [](const nlohmann::json& n) {
    return n.is_number_integer() && n >= 1 && n <= ConfigReader::kMaxWidth;
  };
  if (!value->is_array() || value->empty() || value->size() > kMostSteps ||
      !std::all_of(value->begin(), value->end(), valid))
    in.fail(key, "is " + in.show(*value) + ", expected up to 32 numbers above 0");
  return value->get<std::vector<int>>();
}

std::vector<ConvolutionShape> read_steps(const ConfigReader& in) {
  const std::vector<int> features = read_list(in, "conv_dim", std::vector<int>(7, 512)),
                         widths = read_list(in, "conv_kernel", {10, 3, 3, 3, 3, 2, 2}),
                         strides = read_list(in, "conv_stride", {5, 2, 2, 2, 2, 2, 2});
  if (features.size() != widths.size() || features.size() != strides.size())
    in.fail("conv_dim", "has " + std::to_string(features.size()) + " numbers, conv_kernel " +
                            std::to_string(widths.size()) + ", conv_stride " +
                            std::to_string(strides.size()));
  std::vector<ConvolutionShape> out;
  for (size_t i = 0; i < features.size(); ++i)
    out.push_back({i == 0 ? 1 : features[i - 1], features[i], widths[i], strides[i], 0});
  return out;
}

void read_adapter(const ConfigReader& in, WaveEncoderConfig& out) {
  constexpr int kWidth = ConfigReader::kMaxWidth;
  out.width = size_or(in, "output_hidden_size", kWidth, out.d_model);
  if (!in.flag("add_adapter", false)) {
    if (out.width != out.d_model)
      in.fail("output_hidden_size", "is " + std::to_string(out.width) + ", hidden_size " +
                                        std::to_string(out.d_model) +
                                        ", and without add_adapter nothing is between them");
    return;
  }
  out.adapters = size_or(in, "num_adapter_layers", ConfigReader::kMaxCount, 3);
  const int width = size_or(in, "adapter_kernel_size", 1000, 3);
  // The convolution has a row of zeros on both sides; lengths are computed as if it were 3 wide.
  if (width != 3)
    throw not_supported(in.file() + ": adapter_kernel_size",
                        "is " + std::to_string(width) + ", supported is 3");
  out.adapter = {out.width, out.width, width, size_or(in, "adapter_stride", 1000, 2), 1};
}

}  // namespace

int64_t WaveEncoderConfig::positions_of(int64_t samples) const {
  for (const ConvolutionShape& step : steps) samples = Convolution::rows_of(samples, step);
  for (int i = 0; i < adapters; ++i) samples = Convolution::rows_of(samples, adapter);
  return samples;
}

int64_t WaveEncoderConfig::scratch_values() const {
  int64_t rows = 1;  // for a position of the result
  int64_t out = 0;
  for (int i = 0; i < adapters; ++i) {
    out += rows * (adapter.width + 3) * int64_t{width};
    rows *= adapter.stride;
  }
  out += rows * (int64_t{position_width} * d_model / position_groups + ffn_dim + 8 * d_model);
  for (size_t i = steps.size(); i-- > 0;) {
    out += rows * (steps[i].in * steps[i].width + 2 * steps[i].out);
    rows = rows * steps[i].stride + steps[i].width;
  }
  return out + rows;
}

WaveEncoderConfig read_wave_encoder(const ConfigReader& in) {
  constexpr int kWidth = ConfigReader::kMaxWidth, kCount = ConfigReader::kMaxCount;
  WaveEncoderConfig out;
  out.d_model = size_or(in, "hidden_size", kWidth, 768);
  out.layers = size_or(in, "num_hidden_layers", kCount, 12);
  out.heads = size_or(in, "num_attention_heads", kCount, 12);
  check_heads(in, "num_attention_heads", out);
  out.ffn_dim = size_or(in, "intermediate_size", kWidth, 3072);
  out.activation = in.activation("hidden_act", "gelu");
  out.eps = in.positive("layer_norm_eps", 1e-5f);
  out.steps = read_steps(in);
  out.step_bias = in.flag("conv_bias", false) ? Bias::kRequired : Bias::kNone;
  const std::string norm = in.find("feat_extract_norm") ? in.string("feat_extract_norm") : "group";
  if (norm != "group" && norm != "layer")
    in.fail("feat_extract_norm", "is \"" + norm + "\", expected \"group\" or \"layer\"");
  out.step_norms = norm == "layer";
  out.step_activation = in.activation("feat_extract_activation", "gelu");
  out.position_width = size_or(in, "num_conv_pos_embeddings", kCount, 128);
  out.position_groups = size_or(in, "num_conv_pos_embedding_groups", kCount, 16);
  if (out.d_model % out.position_groups != 0)
    in.fail("num_conv_pos_embedding_groups", "does not divide hidden_size");
  out.pre_norm = in.flag("do_stable_layer_norm", false);
  if (in.find("adapter_attn_dim") != nullptr)
    throw not_supported(in.file() + ": adapter_attn_dim", "adapters of languages are not built");
  read_adapter(in, out);
  return out;
}

}  // namespace tandem
