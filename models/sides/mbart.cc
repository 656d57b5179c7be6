// mBART's decoder (Liu et al. 2020): pre-norm layers, learned positions, a norm behind the
// embeddings and one behind the last layer.
#include <cmath>

#include "models/sides/sides.h"

namespace tandem {
namespace {

constexpr int kMBartOffset = 2;

struct MBart : SideSizes {
  int vocab_size = 0, positions = 0;
  bool scaled = false, tied = true;
};

MBart read_mbart(const ConfigReader& in) {
  constexpr int kRows = ConfigReader::kMaxRows, kWidth = ConfigReader::kMaxWidth,
                kCount = ConfigReader::kMaxCount;
  MBart out;
  out.vocab_size = size_or(in, "vocab_size", kRows, 50265);
  out.d_model = in.size("d_model", kWidth, "hidden_size").value_or(1024);
  out.layers = size_or(in, "decoder_layers", kCount, 12);
  out.heads = size_or(in, "decoder_attention_heads", kCount, 16);
  out.ffn_dim = size_or(in, "decoder_ffn_dim", kWidth, 4096);
  check_heads(in, "decoder_attention_heads", out);
  out.positions = size_or(in, "max_position_embeddings", kRows, 1024);
  out.activation = in.activation("activation_function", "gelu");
  out.scaled = in.flag("scale_embedding", false);
  out.tied = in.flag("tie_word_embeddings", true);
  return out;
}

DecoderSide mbart_decoder(const ConfigReader& in) {
  const MBart c = read_mbart(in);
  DecoderSide out{c, c.vocab_size, c.positions};
  out.scaled = c.scaled;
  out.tied = c.tied;
  out.states_width = read_states_width(in, c, /*takes_any=*/false);
  out.options = options_of(c, NormPlace::kPre, 1e-5f);
  out.options.final_norm = "layer_norm";
  out.ends = [c](const Weights& w, const Build& b) {
    const Weights layers = w / "model" / "decoder";
    layers.find_any("version");
    const TiedTables tables(layers / "embed_tokens", w / "lm_head", {c.vocab_size, c.d_model},
                            c.tied);
    const auto embeddings = [=, &b] {
      const float scale = c.scaled ? std::sqrt(static_cast<float>(c.d_model)) : 1.0f;
      return Embeddings(
          VocabParallelEmbedding(tables.tokens, b, scale),
          Positions::learned(layers, b, c.positions, static_cast<int>(c.d_model), kMBartOffset),
          Norm(layers / "layernorm_embedding", b, c.d_model));
    };
    return DecoderSide::Ends{layers, embeddings,
                             [=, &b] { return ParallelLMHead(tables.head, {}, b); }};
  };
  return out;
}

}  // namespace

SideClass mbart_side() { return {"mbart", nullptr, mbart_decoder}; }

}  // namespace tandem
