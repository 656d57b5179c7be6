#include "models/sides/composite_model.h"

#include <algorithm>
#include <utility>

namespace tandem {
namespace {

// Whether keys and values are made of the encoder's states as they are.
bool takes_states(const SideSizes& encoder, const DecoderSide& decoder) {
  return decoder.states_width > 0 || encoder.d_model == decoder.d_model;
}

SideOptions decoder_options(const SideSizes& encoder, const DecoderSide& decoder) {
  SideOptions out = decoder.options;
  if (takes_states(encoder, decoder)) out.layer.cross_attention.kv_width = encoder.d_model;
  return out;
}

}  // namespace

void check_sides(const ConfigReader& in, const SideSizes& encoder, const DecoderSide& decoder) {
  if (decoder.states_width != 0 && decoder.states_width != encoder.d_model)
    in.fail("cross_attention_hidden_size", "is " + std::to_string(decoder.states_width) +
                                               ", the encoder's hidden_size " +
                                               std::to_string(encoder.d_model));
}

void read_sizes(const SideSizes& encoder, const DecoderSide& decoder, ModelConfig& out) {
  out.vocab_size = decoder.vocab_size;
  out.d_model = encoder.d_model;
  out.encoder_layers = encoder.layers;
  out.decoder_layers = decoder.layers;
  out.encoder_attention_heads = encoder.heads;
  out.decoder_attention_heads = decoder.heads;
  out.encoder_ffn_dim = encoder.ffn_dim;
  out.decoder_ffn_dim = decoder.ffn_dim;
  out.max_position_embeddings = decoder.positions;
  out.activation = decoder.activation;
  out.scale_embedding = decoder.scaled;
  out.tie_word_embeddings = decoder.tied;
}

ModelLimits limits_of_sides(const SideSizes& encoder, const DecoderSide& decoder) {
  ModelLimits out;
  out.decoder_positions = decoder.positions;
  out.position_padding.decoder = decoder.position_padding;
  out.hidden_size = encoder.d_model;
  const int64_t ffn = std::max(encoder.ffn_dim, decoder.ffn_dim);
  const int64_t width = std::max(encoder.d_model, decoder.d_model);
  out.scratch_values_per_token = ffn + 6 * width;
  out.widest_linear = std::max(ffn, 3 * width);
  out.self_cache_values_per_token = int64_t{2} * decoder.layers * decoder.d_model;
  out.cross_cache_values_per_token = out.self_cache_values_per_token;
  out.cache_heads_per_token = int64_t{decoder.layers} * decoder.heads;
  return out;
}

CompositeModel::CompositeModel(const ModelConfig& c, const Build& b, const Weights& root,
                               const SideSizes& encoder, const SideOptions& encoder_options,
                               std::function<Embeddings()> embeddings, const DecoderSide& decoder,
                               const Names& names)
    : CompositeModel(c, b, root, encoder, encoder_options, std::move(embeddings), decoder, names,
                     decoder.ends(root / names.decoder, b)) {}

CompositeModel::CompositeModel(const ModelConfig& c, const Build& b, const Weights& root,
                               const SideSizes& encoder, const SideOptions& encoder_options,
                               std::function<Embeddings()> embeddings, const DecoderSide& decoder,
                               const Names& names, DecoderSide::Ends ends)
    : Seq2Seq(c, b, {std::move(embeddings), std::move(ends.embeddings), std::move(ends.head)},
              root / names.encoder, encoder_options, ends.layers,
              decoder_options(encoder, decoder)),
      part_(shard_range(encoder.d_model, b.comm.rank(), b.comm.size())) {
  if (ends.transform && b.decoder_layers.has_last(decoder.layers))
    transform_.emplace(ends.transform());
  if (!takes_states(encoder, decoder))
    projection_.emplace(root / "enc_to_dec_proj", b.of_many_rows(), encoder.d_model,
                        decoder.d_model, part_);
}

void CompositeModel::write_cross_kv(const StepTensors& in, const Tensor& states, KvCache& cache) {
  Seq2Seq::write_cross_kv(
      in, projection_ ? projection_->forward(states.columns(part_.begin, part_.end)) : states,
      cache);
}

Tensor CompositeModel::transformed(const Tensor& hidden) const {
  return transform_ ? transform_->forward(hidden) : hidden;
}

Tensor CompositeModel::compute_logits(const Tensor& hidden) {
  return Seq2Seq::compute_logits(transformed(hidden));
}

Tensor CompositeModel::compute_logits_shard(const Tensor& hidden) {
  return Seq2Seq::compute_logits_shard(transformed(hidden));
}

void CompositeModel::take_best(const Tensor& hidden, const ops::LinearBestArgs& args) {
  Seq2Seq::take_best(transformed(hidden), args);
}

}  // namespace tandem
