#include "models/blocks/bart_shape.h"

#include <utility>

namespace tandem {
namespace {

constexpr int kPositionOffset = 2;

}  // namespace

std::unique_ptr<Model> make_bart_shape(const ModelConfig& c, const Weights& root, const Build& b,
                                       NormPlace norms) {
  const Weights model = scope_of(root, "model", "encoder.layernorm_embedding.weight", {c.d_model});
  const Weights encoder = model / "encoder", decoder = model / "decoder";
  const TokenTables tables(root, model, c);
  const auto embeddings = [&](const Weights& w, const VocabParallelEmbedding& tokens) {
    return Embeddings(
        tokens, Positions::learned(w, b, c.max_position_embeddings, c.d_model, kPositionOffset),
        Norm(w / "layernorm_embedding", b, c.d_model));
  };
  const auto [encoder_tokens, decoder_tokens] = token_embeddings(tables, b, c);
  Seq2Seq::Parts parts{embeddings(encoder, encoder_tokens), embeddings(decoder, decoder_tokens),
                       ParallelLMHead(tables.head, final_logits_bias(root, c), b)};
  // Old checkpoints carry the layout's version beside the weights.
  for (const Weights& side : {encoder, decoder}) side.find_any("version");
  SideOptions of_encoder = encoder_side(c, norms), of_decoder = decoder_side(c, norms);
  if (norms == NormPlace::kPre) of_encoder.final_norm = of_decoder.final_norm = "layer_norm";
  return std::make_unique<Seq2Seq>(c, b, std::move(parts), encoder, of_encoder, decoder,
                                   of_decoder);
}

}  // namespace tandem
