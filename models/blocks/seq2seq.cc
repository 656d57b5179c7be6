#include "models/blocks/seq2seq.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"

namespace tandem {
namespace {

std::optional<Norm> norm_of(const Weights& w, const Build& b, const SideOptions& o,
                            const LayerRange& range) {
  if (o.final_norm.empty() || !range.has_last(o.num_layers)) return std::nullopt;
  return Norm(w / o.final_norm, b, o.layer.d_model, o.layer.eps, o.layer.norm_kind);
}

template <class Layer>
std::vector<Layer> layers_of(const Weights& w, const Build& b, const SideOptions& o,
                             const LayerRange& range) {
  std::vector<Layer> layers;
  for (int i = range.begin; i < std::min(range.end, o.num_layers); ++i) {
    LayerOptions options = o.layer;
    if (o.of_layer) o.of_layer(i, options);
    options.cross_attention.layer = i;
    // Their rows are not the tokens alone.
    const bool other_rows = options.block_attention || options.picture_attention || options.streams;
    layers.emplace_back(w / o.layers / i, other_rows ? b.without_adapters() : b, options);
  }
  // Those of other ranks are no tensors that nobody reads.
  if (!range.has_all(o.num_layers)) w.skip();
  return layers;
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

int summary_block_of(const LayerOptions& o) {
  return o.summary_attention ? o.summary_attention->block : 0;
}

CarriedVectors carried_of(const LayerOptions& o) {
  return o.block_attention ? o.block_attention->carried : CarriedVectors();
}

Tensor finished(const std::optional<Norm>& norm, const Residual& state) {
  return norm ? normed(*norm, state) : state.made();  // pre-norm models have a norm at the end
}

// The next rank does not know the norm that a post-norm layer leaves to its reader.
StageState handed_on(Residual state) {
  if (state.norm != nullptr) return {state.made()};
  return {std::move(state.sum), std::move(state.update)};
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

TokenEmbeddings::TokenEmbeddings(const HostTensor& encoder, const HostTensor& decoder,
                                 const Build& b, float encoder_scale, float decoder_scale)
    : encoder_table_(encoder),
      decoder_table_(decoder),
      build_(b),
      encoder_scale_(encoder_scale),
      decoder_scale_(decoder_scale) {}

const VocabParallelEmbedding& TokenEmbeddings::made(Made& own, const Made& other,
                                                    const HostTensor& table, float scale) {
  const bool one_table = encoder_table_.data == decoder_table_.data;
  if (own) return *own;
  return one_table && other ? own.emplace(*other) : own.emplace(table, build_, scale);
}
const VocabParallelEmbedding& TokenEmbeddings::encoder() {
  return made(encoder_, decoder_, encoder_table_, encoder_scale_);
}
const VocabParallelEmbedding& TokenEmbeddings::decoder() {
  return made(decoder_, encoder_, decoder_table_, decoder_scale_);
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
      num_encoder_layers_(encoder_side.num_layers),
      num_decoder_layers_(decoder_side.num_layers),
      gives_cross_weights_(!decoder_side.layer.merged_attention && !decoder_side.layer.streams),
      encoder_heads_(heads_of(build, encoder_side)),
      decoder_heads_(heads_of(build, decoder_side)),
      encoder_norm_(norm_of(encoder, build, encoder_side, build.encoder_layers)),
      decoder_norm_(norm_of(decoder, build, decoder_side, build.decoder_layers)),
      summary_block_(summary_block_of(encoder_side.layer)),
      carried_(carried_of(encoder_side.layer)),
      sparse_(encoder_side.layer.sparse_attention.value_or(SparseBlocks())),
      streams_(decoder_side.layer.streams.value_or(StreamOptions())),
      encoder_frequencies_(resident(build, encoder_side.frequencies)),
      decoder_frequencies_(resident(build, decoder_side.frequencies)) {
  const LayerRange &of_encoder = build.encoder_layers, &of_decoder = build.decoder_layers;
  TANDEM_CHECK(parts.decoder_embeddings != nullptr, "a decoder without embeddings");
  if (of_encoder.has_first() && parts.encoder_embeddings)
    encoder_embeddings_.emplace(parts.encoder_embeddings()).adapt((encoder / parts.words).scope());
  if (of_encoder.has_first() && parts.carried) carried_embeddings_.emplace(parts.carried());
  if (of_encoder.has_first() && parts.frame_positions) frame_positions_ = parts.frame_positions();
  if (of_decoder.has_first())
    decoder_embeddings_.emplace(parts.decoder_embeddings()).adapt((decoder / parts.words).scope());
  if (of_decoder.has_first() && parts.streams) stream_embeddings_.emplace(parts.streams());
  if ((of_encoder.has_first() || of_decoder.has_first()) && parts.own_row)
    if (auto row = parts.own_row()) own_row_.emplace(std::move(*row));
  if (of_decoder.has_last(num_decoder_layers_)) {
    if (parts.head) head_.emplace(parts.head()).adapt(parts.head_name);
    if (parts.output_head)
      if (auto head = parts.output_head()) output_head_.emplace(std::move(*head));
  }
  encoder_layers_ =
      layers_of<EncoderLayer>(encoder, build.of_many_rows(), encoder_side, of_encoder);
  if (build.writes_cross) {
    TANDEM_CHECK(of_decoder.empty(), "the decoder's layers write theirs themselves");
    cross_writers_ = layers_of<CrossWriter>(decoder, build, decoder_side, {});
    decoder.skip();
    return;
  }
  decoder_layers_ = layers_of<DecoderLayer>(decoder, build, decoder_side, of_decoder);
  if (!build.ctx.on_cpu() && of_decoder.has_all(num_decoder_layers_) &&
      decoder_frequencies_.empty() && streams_.ngram == 0)
    if (auto parts = DecoderParts::of(decoder_layers_, decoder_norm_))
      decoder_parts_.emplace(std::move(*parts));
}

KvCacheSpec Seq2Seq::kv_cache_spec() const {
  return {.num_layers = static_cast<int>(decoder_layers_.size() + cross_writers_.size()),
          .num_heads = decoder_heads_.kv_count(),
          .head_dim = decoder_heads_.head_dim,
          .dtype = build_.kv_cache_dtype.value_or(kv_cache_dtype(build_.dtype)),
          .first_head = static_cast<int>(decoder_heads_.local.keys.begin)};
}

StepLayout Seq2Seq::step_layout() const {
  return {encoder_heads_.count(), encoder_heads_.head_dim, decoder_heads_.count(),
          decoder_heads_.head_dim,
          build_.kv_cache_dtype && page_scale_type(*build_.kv_cache_dtype)};
}

Tensor Seq2Seq::embed_source(const StepTensors& in) {
  TANDEM_CHECK(encoder_embeddings_.has_value(), "the encoder reads no ids");
  return encoder_embeddings_->forward(in.encoder_input_ids, in.encoder_positions);
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
  TANDEM_CHECK(build_.encoder_layers.has_all(num_encoder_layers_),
               "not all of the encoder is here");
  return encode_stage(in, {}).sum;
}

// With what a step's layers share, made once.
StepTensors Seq2Seq::prepared(const StepTensors& in) {
  StepTensors out = in;
  out.encoder_angles = angles(encoder_frequencies_, in.encoder_positions);
  if (summary_block_ > 0)
    out.summaries = summaries_of(build_.ctx, in.host->encoder_seq_lens, summary_block_);
  if (carried_.count > 0)
    out.blocks = blocks_of(build_.ctx, in.host->encoder_seq_lens, carried_, encoder_heads_);
  if (sparse_.block > 0)
    out.sparse = sparse_of(build_.ctx, in.host->encoder_seq_lens, sparse_, encoder_heads_);
  return out;
}

StageState Seq2Seq::encode_stage(const StepTensors& in, StageState state) {
  const bool plain = encoder_frequencies_.empty() && summary_block_ == 0 && carried_.count == 0 &&
                     sparse_.block == 0;
  Residual x =
      plain ? run_encoder(in, std::move(state)) : run_encoder(prepared(in), std::move(state));
  if (!build_.encoder_layers.has_last(num_encoder_layers_)) return handed_on(std::move(x));
  const Tensor out = finished(encoder_norm_, x);
  return {carried_.count > 0 ? out.rows(0, in.encoder_positions.dim(0)) : out};
}

Residual Seq2Seq::run_encoder(const StepTensors& in, StageState state) {
  Residual x = build_.encoder_layers.has_first()
                   ? begin_encoder(in)
                   : Residual{std::move(state.sum), std::move(state.update)};
  for (const EncoderLayer& layer : encoder_layers_) x = layer.forward(std::move(x), in);
  return x;
}

Residual Seq2Seq::begin_encoder(const StepTensors& in) {
  Residual state{embed_source(in)};
  if (carried_embeddings_)
    state.sum = carried_embeddings_->behind(state.sum, std::ssize(in.host->encoder_seq_lens));
  if (own_row_) state.update = own_row_->forward(in.encoder_input_ids, in.encoder_positions);
  if (const Tensor& table = frame_positions_.table(); !table.empty()) {
    state.update = build_.ctx.make({in.encoder_positions.dim(0), table.dim(1)});
    const int first_position = -frame_positions_.offset();
    ops::embedding(build_.ctx,
                   {in.encoder_positions, {}, table, {}, 1.0f, 0, first_position, state.update});
  }
  return state;
}

void Seq2Seq::write_cross_kv(const StepTensors& in, const Tensor& encoder_states, KvCache& cache) {
  for (size_t i = 0; i < decoder_layers_.size(); ++i)
    decoder_layers_[i].write_cross_kv(encoder_states, in, cache.layers[i]);
  for (size_t i = 0; i < cross_writers_.size(); ++i)
    cross_writers_[i].write_cross_kv(encoder_states, in, cache.layers[i]);
}

Tensor Seq2Seq::decode(const StepTensors& in, KvCache& cache) {
  TANDEM_CHECK(build_.decoder_layers.has_all(num_decoder_layers_),
               "not all of the decoder is here");
  return decode_stage(in, {}, cache).sum;
}

StageState Seq2Seq::decode_stage(const StepTensors& in, StageState state, KvCache& cache) {
  std::optional<StepTensors> more;
  if (!decoder_frequencies_.empty() || streams_.ngram > 0)
    more.emplace(prepared_decoder(in, cache.block_size));
  const StepTensors& step = more ? *more : in;
  Residual x = build_.decoder_layers.has_first()
                   ? begin_decoder(step)
                   : Residual{std::move(state.sum), std::move(state.update)};
  if (decoder_parts_)
    if (Tensor rows = decoder_parts_->decode(build_.ctx, x, step, cache); !rows.empty())
      return {std::move(rows)};
  x = run_decoder(step, std::move(x), cache);
  if (!build_.decoder_layers.has_last(num_decoder_layers_)) return handed_on(std::move(x));
  const Tensor out = finished(decoder_norm_, x);
  return {streams_.ngram > 0 ? stream_results(build_.ctx, out, step.streams) : out};
}

StepTensors Seq2Seq::prepared_decoder(const StepTensors& in, int block_size) {
  StepTensors out = in;
  out.angles = angles(decoder_frequencies_, in.positions);
  if (streams_.ngram > 0)
    out.streams = streams_of(build_.ctx, in, block_size, streams_, decoder_heads_,
                             config_.decoder_attention_heads);
  return out;
}

Residual Seq2Seq::run_decoder(const StepTensors& in, Residual x, KvCache& cache) {
  for (size_t i = 0; i < decoder_layers_.size(); ++i)
    x = decoder_layers_[i].forward(std::move(x), in, cache.layers[i]);
  return x;
}

Residual Seq2Seq::begin_decoder(const StepTensors& in) {
  Residual state{decoder_embeddings_->forward(in.input_ids, in.positions)};
  if (stream_embeddings_) state.sum = stream_embeddings_->with_streams(state.sum, in);
  if (own_row_) state.update = own_row_->forward(in.input_ids, in.positions);
  return state;
}

Tensor Seq2Seq::run_output_head(const Tensor& hidden) {
  TANDEM_CHECK(output_head_.has_value(), "the model has no head of labels or spans");
  return output_head_->forward(hidden);
}

}  // namespace tandem
