// TrOCR's decoder (Li et al. 2021), which is BART's with learned or sinusoidal positions.
#include <cmath>

#include "models/sides/sides.h"

namespace tandem {
namespace {

constexpr int kTrOcrOffset = 2;

struct TrOcr : SideSizes {
  int vocab_size = 0, positions = 0, pad = 0;
  bool scaled = false, learned_positions = true, embedding_norm = true, tied = true;
};

TrOcr read_trocr(const ConfigReader& in) {
  constexpr int kRows = ConfigReader::kMaxRows, kWidth = ConfigReader::kMaxWidth,
                kCount = ConfigReader::kMaxCount;
  TrOcr out;
  out.vocab_size = size_or(in, "vocab_size", kRows, 50265);
  out.d_model = in.size("d_model", kWidth, "hidden_size").value_or(1024);
  out.layers = in.size("decoder_layers", kCount, "num_hidden_layers").value_or(12);
  out.heads = in.size("decoder_attention_heads", kCount, "num_attention_heads").value_or(16);
  out.ffn_dim = size_or(in, "decoder_ffn_dim", kWidth, 4096);
  check_heads(in, "decoder_attention_heads", out);
  out.positions = size_or(in, "max_position_embeddings", kRows, 512);
  out.activation = in.activation("activation_function", "gelu");
  out.scaled = in.flag("scale_embedding", false);
  out.learned_positions = in.flag("use_learned_position_embeddings", true);
  out.embedding_norm = in.flag("layernorm_embedding", true);
  out.tied = in.flag("tie_word_embeddings", true);
  const nlohmann::json* pad = in.find("pad_token_id");
  out.pad = pad == nullptr || *pad == 0 ? static_cast<int>(pad == nullptr)
                                        : size_or(in, "pad_token_id", kRows, 1);
  return out;
}

Embeddings embeddings_of(const TrOcr& c, const HostTensor& tokens, const Weights& w,
                         const Build& b) {
  const float scale = c.scaled ? std::sqrt(static_cast<float>(c.d_model)) : 1.0f;
  std::optional<Norm> norm;
  if (c.embedding_norm) norm.emplace(w / "layernorm_embedding", b, c.d_model);
  if (!c.learned_positions) (w / "embed_positions").skip();  // a remark of old files
  const Positions positions = c.learned_positions
                                  ? Positions::learned(w, b, c.positions, c.d_model, kTrOcrOffset)
                                  : Positions::fairseq_sinusoidal(b, c.positions, c.d_model, c.pad);
  return {VocabParallelEmbedding(tokens, b, scale), positions, std::move(norm)};
}

DecoderSide trocr_decoder(const ConfigReader& in) {
  const TrOcr c = read_trocr(in);
  DecoderSide out{c, c.vocab_size, c.positions};
  if (!c.learned_positions) out.position_padding = c.pad;
  out.scaled = c.scaled;
  out.tied = c.tied;
  out.states_width = read_states_width(in, c, /*takes_any=*/true);
  out.options = options_of(c, NormPlace::kPost, 1e-5f);
  out.ends = [c](const Weights& w, const Build& b) {
    const Weights layers = w / "model" / "decoder";
    layers.find_any("version");
    const TiedTables tables(layers / "embed_tokens", w / "output_projection",
                            {c.vocab_size, c.d_model}, c.tied);
    return DecoderSide::Ends{layers, [=, &b] { return embeddings_of(c, tables.tokens, layers, b); },
                             [=, &b] { return ParallelLMHead(tables.head, {}, b); }};
  };
  return out;
}

}  // namespace

SideClass trocr_side() { return {"trocr", nullptr, trocr_decoder}; }

}  // namespace tandem
