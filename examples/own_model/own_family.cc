// A family that is not in Tandem: config.json says model_type "own_model" and architectures
// ["OwnModel"], with sizes under names of its own. Post-norm layers, learned positions with an
// offset of 2.
#include "own_family.h"

namespace own {
namespace {

using namespace tandem;

void read_config(const ConfigReader& in, ModelConfig& out) {
  read_encoder_decoder(in, {.activation = "gelu"}, out);
  out.d_model = in.size("width", ConfigReader::kMaxWidth).value_or(64);
  out.encoder_layers = out.decoder_layers = in.size("depth", ConfigReader::kMaxCount).value_or(2);
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Weights model = root / "model", encoder = model / "encoder", decoder = model / "decoder";
  const TokenTables tables(root, model, c);
  TokenEmbeddings tokens(tables, b, c);
  const auto embeddings = [&](const Weights& w, const VocabParallelEmbedding& tokens) {
    return Embeddings(tokens,
                      Positions::learned(w, b, c.max_position_embeddings, c.d_model, /*offset=*/2),
                      Norm(w / "layernorm_embedding", b, c.d_model));
  };
  Seq2Seq::Parts parts{[&] { return embeddings(encoder, tokens.encoder()); },
                       [&] { return embeddings(decoder, tokens.decoder()); },
                       [&] { return ParallelLMHead(tables.head, final_logits_bias(root, c), b); }};
  return std::make_unique<Seq2Seq>(c, b, std::move(parts), encoder,
                                   encoder_side(c, NormPlace::kPost), decoder,
                                   decoder_side(c, NormPlace::kPost));
}

}  // namespace

tandem::ModelFamily family() {
  return {.model_type = "own_model",
          .architectures = {"OwnModel"},
          .special_tokens = {.bos = 0, .pad = 1, .eos = 2, .decoder_start = 2},
          .read_config = read_config,
          .decoder_prompt = start_and_bos_prompt,
          .make = make};
}

}  // namespace own
