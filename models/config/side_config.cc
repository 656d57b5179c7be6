#include "models/config/side_config.h"

#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>

#include "base/strings/printable.h"

namespace tandem {
namespace {

using nlohmann::json;

// null: no cap.
float read_cap(const ConfigReader& in, const char* key, float otherwise) {
  const bool none = in.find(key) == nullptr && in.raw().contains(key);
  return none ? 0.0f : in.positive(key, otherwise);
}

std::vector<bool> read_sliding(const ConfigReader& in, int layers, int pattern) {
  std::vector<bool> out;
  const json* types = in.find("layer_types");
  if (types == nullptr) {
    for (int i = 0; i < layers; ++i) out.push_back((i + 1) % pattern != 0);
    return out;
  }
  if (!types->is_array() || std::ssize(*types) != layers)
    in.fail("layer_types", "is " + in.show(*types) + ", expected one for each layer");
  for (const json& type : *types) {
    if (type != "sliding_attention" && type != "full_attention")
      in.fail("layer_types",
              "has " + in.show(type) + ", expected sliding_attention or full_attention");
    out.push_back(type == "sliding_attention");
  }
  return out;
}

void read_rope(const ConfigReader& in, SideConfig::Rope& out) {
  const char* key = in.find("rope_type") ? "rope_type" : "type";
  const std::string type = in.find(key) ? in.string(key) : "default";
  if (type != "default" && type != "linear")
    throw not_supported(in.file() + ": " + key, in_quotes(type) + " is not supported");
  out.theta = in.positive("rope_theta", out.theta);
  if (type == "linear") out.factor = in.positive("factor", 1.0f);
}

// Old files have single keys; rope_parameters is one for all layers, or has one for each type.
void read_ropes(const ConfigReader& in, const SideDefaults& d, SideConfig& out) {
  const bool alike = d.sliding_theta == 0;
  out.rope.theta = in.positive("rope_theta", d.theta);
  out.sliding_rope.theta =
      alike ? out.rope.theta : in.positive("rope_local_base_freq", d.sliding_theta);
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (in.find(key) == nullptr) continue;
    const ConfigReader all = part_of(in, key);
    const bool full = all.find("full_attention"), sliding = all.find("sliding_attention");
    if (full) read_rope(part_of(all, "full_attention"), out.rope);
    if (sliding) read_rope(part_of(all, "sliding_attention"), out.sliding_rope);
    if (full || sliding) continue;
    read_rope(all, out.rope);
    if (alike) out.sliding_rope = out.rope;
  }
}

}  // namespace

ConfigReader part_of(const ConfigReader& in, const char* key) {
  const json* part = in.find(key);
  if (part == nullptr) in.fail(key, "is missing");
  return ConfigReader(in.file() + ": " + key, *part);
}

ConfigReader part_or_empty(const ConfigReader& in, const char* key) {
  static const json kEmpty = json::object();
  return in.find(key) != nullptr ? part_of(in, key) : ConfigReader(in.file() + ": " + key, kEmpty);
}

SideConfig read_side(const ConfigReader& in, const SideDefaults& d) {
  constexpr int kWidth = ConfigReader::kMaxWidth, kCount = ConfigReader::kMaxCount,
                kRows = ConfigReader::kMaxRows;
  const auto size = [&](const char* key, int max, int otherwise) {
    return in.find(key) ? in.size(key, max).value_or(otherwise) : otherwise;
  };
  SideConfig out;
  out.vocab_size = size("vocab_size", kRows, d.vocab_size);
  out.d_model = size("hidden_size", kWidth, 2304);
  out.ffn_dim = size("intermediate_size", kWidth, 9216);
  out.layers = size("num_hidden_layers", kCount, 26);
  out.heads = size("num_attention_heads", kCount, 8);
  out.kv_heads = size("num_key_value_heads", kCount, 4);
  if (out.heads % out.kv_heads != 0)
    in.fail("num_key_value_heads", "is " + std::to_string(out.kv_heads) +
                                       ", which does not divide num_attention_heads (" +
                                       std::to_string(out.heads) + ")");
  out.head_dim = size("head_dim", kWidth, 256);
  if (out.head_dim % 2 != 0)
    in.fail("head_dim", "is " + std::to_string(out.head_dim) + ", expected an even number");
  out.max_positions = size("max_position_embeddings", kRows, d.max_positions);
  out.window = size("sliding_window", kRows, 4096);
  out.sliding =
      read_sliding(in, out.layers, size("sliding_window_pattern", kCount, d.sliding_pattern));
  read_ropes(in, d, out);
  out.eps = in.positive("rms_norm_eps", 1e-6f);
  out.score_scale =
      static_cast<float>(1.0 / std::sqrt(double{in.positive("query_pre_attn_scalar", 256.0f)}));
  out.attention_soft_cap = read_cap(in, "attn_logit_softcapping", d.attention_soft_cap);
  out.logit_soft_cap = read_cap(in, "final_logit_softcapping", d.logit_soft_cap);
  out.activation = in.activation("hidden_activation", "gelu_pytorch_tanh");
  out.attention_bias = in.flag("attention_bias", false);
  return out;
}

}  // namespace tandem
