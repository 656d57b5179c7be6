// The list of classes of sides, and what they share.
#include "models/sides/sides.h"

#include <algorithm>
#include <iterator>
#include <string_view>

namespace tandem {

// A line a class, expanded twice: the declaration and the entry.
#define TANDEM_SIDES(SIDE) \
  SIDE(bart)               \
  SIDE(bert)               \
  SIDE(blip_text)          \
  SIDE(camembert)          \
  SIDE(gpt2)               \
  SIDE(mbart)              \
  SIDE(roberta)            \
  SIDE(trocr)              \
  SIDE(xlm_roberta)

#define SIDE(name) SideClass name##_side();
TANDEM_SIDES(SIDE)
#undef SIDE

namespace {

SideClass class_of(const std::string& type) {
#define SIDE(name) name##_side(),
  static const SideClass kClasses[] = {TANDEM_SIDES(SIDE)};
#undef SIDE
  const auto* found = std::find_if(std::begin(kClasses), std::end(kClasses),
                                   [&](const SideClass& c) { return c.model_type == type; });
  TANDEM_CHECK(found != std::end(kClasses), "no such class of sides");
  return *found;
}

}  // namespace

std::string side_type(const ConfigReader& in, const std::vector<std::string>& types) {
  const std::string type = in.find("model_type") ? in.string("model_type") : types.front();
  if (std::find(types.begin(), types.end(), type) != types.end()) return type;
  std::string known;
  for (const std::string& name : types) known += (known.empty() ? "" : ", ") + name;
  throw not_supported(in.file() + ": model_type",
                      "is " + in.show(type) + ", which is not supported here: " + known);
}

EncoderSide read_encoder_side(const ConfigReader& in, const std::vector<std::string>& types) {
  return class_of(side_type(in, types)).encoder(in);
}

DecoderSide read_decoder_side(const ConfigReader& in, const std::vector<std::string>& types) {
  return class_of(side_type(in, types)).decoder(in);
}

void check_heads(const ConfigReader& in, const char* key, const SideSizes& s) {
  if (s.d_model % s.heads != 0)
    in.fail(key, "is " + std::to_string(s.heads) + ", which does not divide the hidden size (" +
                     std::to_string(s.d_model) + ")");
}

void need_flag(const ConfigReader& in, const char* key, bool wanted, const char* why) {
  if (in.flag(key, false) != wanted)
    in.fail(key, std::string("is ") + (wanted ? "not true" : "true") + ": " + why);
}

SideOptions options_of(const SideSizes& s, NormPlace norms, float eps) {
  SideOptions out;
  out.num_layers = s.layers;
  out.layer.d_model = s.d_model;
  out.layer.norms = norms;
  out.layer.eps = eps;
  out.layer.self_attention = out.layer.cross_attention =
      AttentionOptions::scaled(s.heads, s.d_model / s.heads);
  out.layer.feed_forward = {s.ffn_dim, s.activation};
  return out;
}

int read_states_width(const ConfigReader& in, const SideSizes& s, bool takes_any) {
  const char* key = "cross_attention_hidden_size";
  const int width = size_or(in, key, ConfigReader::kMaxWidth, 0);
  if (!takes_any && width != 0 && width != s.d_model)
    in.fail(key, "is " + std::to_string(width) + ", but this class makes keys and values of " +
                     std::to_string(s.d_model) + " features");
  return width;
}

}  // namespace tandem
