#include "models/blocks/seq2seq.h"

#include <cmath>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

std::optional<Norm> norm_of(const Weights& w, const Build& b, const SideOptions& o) {
  if (o.final_norm.empty()) return std::nullopt;
  return Norm(w / o.final_norm, b, o.layer.d_model, o.layer.eps, o.layer.norm_kind);
}

template <class Layer>
void build_layers(const Weights& w, const Build& b, const SideOptions& o,
                  std::vector<Layer>& layers) {
  for (int i = 0; i < o.num_layers; ++i) {
    LayerOptions options = o.layer;
    if (o.of_layer) o.of_layer(i, options);
    layers.emplace_back(w / o.layers / i, b, options);
  }
}

Heads heads_of(const Build& b, const SideOptions& o) {
  const AttentionOptions& attention = o.layer.self_attention;
  return Heads(b, attention.heads, attention.head_dim, attention.kv_heads);
}

std::vector<Tensor> resident(const Build& b, const std::vector<Tensor>& tables) {
  std::vector<Tensor> out;
  for (const Tensor& table : tables) out.push_back(b.ctx.resident(table));
  return out;
}

Tensor finished(const std::optional<Norm>& norm, const Residual& state) {
  return norm ? normed(*norm, state) : state.made();  // pre-norm models have a norm at the end
}

}  // namespace

SideOptions encoder_side(const ModelConfig& c, NormPlace norms) {
  SideOptions out;
  out.num_layers = c.encoder_layers;
  out.layer.norms = norms;
  out.layer.d_model = c.d_model;
  out.layer.self_attention =
      AttentionOptions::scaled(c.encoder_attention_heads, c.encoder_head_dim());
  out.layer.feed_forward = {c.encoder_ffn_dim, c.activation};
  return out;
}

SideOptions decoder_side(const ModelConfig& c, NormPlace norms) {
  SideOptions out;
  out.num_layers = c.decoder_layers;
  out.layer.norms = norms;
  out.layer.d_model = c.d_model;
  out.layer.self_attention = out.layer.cross_attention =
      AttentionOptions::scaled(c.decoder_attention_heads, c.decoder_head_dim());
  out.layer.feed_forward = {c.decoder_ffn_dim, c.activation};
  return out;
}

Weights scope_of(const Weights& root, const char* inner, const char* tensor, const Shape& shape) {
  const Weights nested = root / inner;
  return nested.find(tensor, shape).has_value() ? nested : root;
}

float embedding_scale(const ModelConfig& c) {
  return c.scale_embedding ? std::sqrt(static_cast<float>(c.d_model)) : 1.0f;
}

TokenEmbeddings token_embeddings(const TokenTables& tables, const Build& b, const ModelConfig& c) {
  const float scale = embedding_scale(c);
  const VocabParallelEmbedding encoder(tables.encoder, b, scale);
  if (tables.decoder.data == tables.encoder.data) return {encoder, encoder};
  return {encoder, VocabParallelEmbedding(tables.decoder, b, scale)};
}

Tensor final_logits_bias(const Weights& root, const ModelConfig& c) {
  const auto bias = root.find("final_logits_bias", {1, c.vocab_size});
  return bias ? to_float(*bias) : Tensor();
}

Seq2Seq::Seq2Seq(const ModelConfig& config, const Build& build, Parts parts, const Weights& encoder,
                 const SideOptions& encoder_side, const Weights& decoder,
                 const SideOptions& decoder_side)
    : config_(config),
      build_(build),
      parts_(std::move(parts)),
      encoder_heads_(heads_of(build, encoder_side)),
      decoder_heads_(heads_of(build, decoder_side)),
      encoder_norm_(norm_of(encoder, build, encoder_side)),
      decoder_norm_(norm_of(decoder, build, decoder_side)),
      encoder_frequencies_(resident(build, encoder_side.frequencies)),
      decoder_frequencies_(resident(build, decoder_side.frequencies)) {
  if (build.without_encoder)
    encoder.skip();
  else
    build_layers(encoder, build.of_many_rows(), encoder_side, encoder_layers_);
  build_layers(decoder, build, decoder_side, decoder_layers_);
}

KvCacheSpec Seq2Seq::kv_cache_spec() const {
  return {static_cast<int>(decoder_layers_.size()), decoder_heads_.kv_count(),
          decoder_heads_.head_dim, build_.kv_cache_dtype.value_or(kv_cache_dtype(build_.dtype))};
}

StepLayout Seq2Seq::step_layout() const {
  return {encoder_heads_.count(), encoder_heads_.head_dim, decoder_heads_.count(),
          decoder_heads_.head_dim, build_.kv_cache_dtype == DType::kF8E4M3};
}

Tensor Seq2Seq::embed_source(const StepTensors& in) {
  TANDEM_CHECK(parts_.encoder_embeddings.has_value(), "the encoder reads no ids");
  return parts_.encoder_embeddings->forward(in.encoder_input_ids, in.encoder_positions);
}

std::vector<Tensor> Seq2Seq::angles(const std::vector<Tensor>& frequencies,
                                    const Tensor& positions) {
  std::vector<Tensor> out;
  for (const Tensor& table : frequencies) {
    out.push_back(build_.ctx.make({positions.dim(0), 2 * table.dim(0)}, DType::kF32));
    ops::rotary_angles(build_.ctx, {positions, table, out.back()});
  }
  return out;
}

Tensor Seq2Seq::encode(const StepTensors& in) {
  TANDEM_CHECK(!build_.without_encoder, "the encoder was not loaded");
  if (encoder_frequencies_.empty()) return run_encoder(in);
  StepTensors turning = in;
  turning.encoder_angles = angles(encoder_frequencies_, in.encoder_positions);
  return run_encoder(turning);
}

Tensor Seq2Seq::run_encoder(const StepTensors& in) {
  Residual state{embed_source(in)};
  if (parts_.own_row)
    state.update = parts_.own_row->forward(in.encoder_input_ids, in.encoder_positions);
  if (const Tensor& table = parts_.frame_positions.table(); !table.empty()) {
    state.update = build_.ctx.make({in.encoder_positions.dim(0), table.dim(1)});
    ops::embedding(build_.ctx, {in.encoder_positions, {}, table, {}, 1.0f, 0, 0, state.update});
  }
  for (const EncoderLayer& layer : encoder_layers_) state = layer.forward(std::move(state), in);
  return finished(encoder_norm_, state);
}

void Seq2Seq::write_cross_kv(const StepTensors& in, const Tensor& encoder_states, KvCache& cache) {
  for (size_t i = 0; i < decoder_layers_.size(); ++i)
    decoder_layers_[i].write_cross_kv(encoder_states, in, cache.layers[i]);
}

Tensor Seq2Seq::decode(const StepTensors& in, KvCache& cache) {
  if (decoder_frequencies_.empty()) return run_decoder(in, cache);
  StepTensors turning = in;
  turning.angles = angles(decoder_frequencies_, in.positions);
  return run_decoder(turning, cache);
}

Tensor Seq2Seq::run_output_head(const Tensor& hidden) {
  TANDEM_CHECK(parts_.output_head.has_value(), "the model has no head of labels or spans");
  return parts_.output_head->forward(hidden);
}

Tensor Seq2Seq::run_decoder(const StepTensors& in, KvCache& cache) {
  Residual state{parts_.decoder_embeddings.forward(in.input_ids, in.positions)};
  if (parts_.own_row) state.update = parts_.own_row->forward(in.input_ids, in.positions);
  for (size_t i = 0; i < decoder_layers_.size(); ++i)
    state = decoder_layers_[i].forward(std::move(state), in, cache.layers[i]);
  return finished(decoder_norm_, state);
}

}  // namespace tandem
