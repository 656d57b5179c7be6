// BART (Lewis et al. 2020; HuggingFace BartForConditionalGeneration and BartModel): post-norm
// layers, learned positions with an offset of 2, a layer norm behind the embeddings, tied output
// embedding.
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "models/blocks/attention.h"
#include "models/registry.h"

namespace tandem {
namespace {

constexpr int kPositionOffset = 2;

struct EncoderLayer {
  EncoderLayer(const Weights& w, const Build& b, const ModelConfig& c, int head_dim)
      : attention(w / "self_attn", b, c.d_model, c.encoder_attention_heads, head_dim,
                  1.0f / std::sqrt(static_cast<float>(head_dim))),
        attention_norm(w / "self_attn_layer_norm", b, c.d_model),
        feed_forward(w / "fc1", w / "fc2", b, c.d_model, c.encoder_ffn_dim, c.activation),
        final_norm(w / "final_layer_norm", b, c.d_model) {}

  Tensor forward(const Tensor& x, const StepTensors& in) const {
    const Tensor h = attention_norm.forward(attention.forward(x, in), x);
    return final_norm.forward(feed_forward.forward(h), h);
  }

  EncoderAttention attention;
  LayerNorm attention_norm;
  FeedForward feed_forward;
  LayerNorm final_norm;
};

struct DecoderLayer {
  DecoderLayer(const Weights& w, const Build& b, const ModelConfig& c, int head_dim)
      : self_attention(w / "self_attn", b, c.d_model, c.decoder_attention_heads, head_dim,
                       scale(head_dim)),
        self_norm(w / "self_attn_layer_norm", b, c.d_model),
        cross_attention(w / "encoder_attn", b, c.d_model, c.decoder_attention_heads, head_dim,
                        scale(head_dim)),
        cross_norm(w / "encoder_attn_layer_norm", b, c.d_model),
        feed_forward(w / "fc1", w / "fc2", b, c.d_model, c.decoder_ffn_dim, c.activation),
        final_norm(w / "final_layer_norm", b, c.d_model) {}

  Tensor forward(const Tensor& x, const StepTensors& in, const KvPages& pages) const {
    const Tensor h = self_norm.forward(self_attention.forward(x, in, pages), x);
    const Tensor g = cross_norm.forward(cross_attention.forward(h, in, pages), h);
    return final_norm.forward(feed_forward.forward(g), g);
  }
  static float scale(int head_dim) { return 1.0f / std::sqrt(static_cast<float>(head_dim)); }

  DecoderSelfAttention self_attention;
  LayerNorm self_norm;
  CrossAttention cross_attention;
  LayerNorm cross_norm;
  FeedForward feed_forward;
  LayerNorm final_norm;
};

// The four names under which BART files hold the token embeddings. They are usually one tensor,
// saved under some of its names; one that is there under its own name is used, as HuggingFace does.
struct TokenEmbeddings {
  TokenEmbeddings(const Weights& root, const Weights& model, const ModelConfig& c) {
    const Shape shape{c.vocab_size, c.d_model};
    const auto shared = (model / "shared").find("weight", shape);
    const auto own_encoder = (model / "encoder" / "embed_tokens").find("weight", shape);
    const auto own_decoder = (model / "decoder" / "embed_tokens").find("weight", shape);
    const auto own_head = (root / "lm_head").find("weight", shape);
    std::optional<HostTensor> any = shared;
    for (const auto& t : {own_decoder, own_encoder}) any = any ? any : t;
    if (!any && c.tie_word_embeddings) any = own_head;
    if (!any) any = (model / "shared").get("weight", shape);  // throws, naming it
    encoder = own_encoder.value_or(*any);
    decoder = own_decoder.value_or(*any);
    head = own_head                ? *own_head
           : c.tie_word_embeddings ? *any
                                   : (root / "lm_head").get("weight", shape);
  }
  HostTensor encoder, decoder, head;
};

// BartForConditionalGeneration keeps the encoder and decoder under "model.", BartModel at the root.
Weights model_scope(const Weights& root, const ModelConfig& c) {
  const Weights inner = root / "model";
  const Shape shape{c.d_model};
  const bool nested = (inner / "encoder" / "layernorm_embedding").find("weight", shape).has_value();
  return nested ? inner : root;
}

// One side's embeddings and layers.
struct Embeddings {
  Embeddings(const Weights& w, VocabParallelEmbedding tokens, const Build& b, const ModelConfig& c)
      : tokens(std::move(tokens)),
        position_weights(
            (w / "embed_positions")
                .get("weight", {c.max_position_embeddings + kPositionOffset, c.d_model})),
        positions(b.ctx.resident(table_of(position_weights))),
        norm(w / "layernorm_embedding", b, c.d_model) {}

  Tensor forward(const Tensor& ids, const Tensor& position_ids) const {
    return tokens.forward(ids, position_ids, positions, kPositionOffset, &norm);
  }

  VocabParallelEmbedding tokens;
  HostTensor position_weights;  // keeps the mapping of `positions`
  Tensor positions;
  LayerNorm norm;
};

class Bart final : public Model {
 public:
  Bart(const ModelConfig& c, const Weights& root, const Build& b)
      : Bart(c, root, model_scope(root, c), b) {}

  const ModelConfig& config() const override { return config_; }

  KvCacheSpec kv_cache_spec() const override {
    const Heads heads(build_, config_.decoder_attention_heads, decoder_head_dim());
    return {config_.decoder_layers, heads.count(), heads.head_dim,
            build_.f8_kv_cache ? DType::kF8E4M3 : kv_cache_dtype(build_.dtype)};
  }

  StepLayout step_layout() const override {
    const Heads encoder(build_, config_.encoder_attention_heads, encoder_head_dim());
    const Heads decoder(build_, config_.decoder_attention_heads, decoder_head_dim());
    return {encoder.count(), encoder.head_dim, decoder.count(), decoder.head_dim,
            build_.f8_kv_cache};
  }

  Tensor encode(const StepTensors& in) override {
    Tensor x = encoder_embeddings_.forward(in.encoder_input_ids, in.encoder_positions);
    for (const EncoderLayer& layer : encoder_layers_) x = layer.forward(x, in);
    return x;
  }

  void write_cross_kv(const StepTensors& in, const Tensor& encoder_states,
                      KvCache& cache) override {
    for (size_t i = 0; i < decoder_layers_.size(); ++i)
      decoder_layers_[i].cross_attention.write_kv(encoder_states, in, cache.layers[i]);
  }

  Tensor decode(const StepTensors& in, KvCache& cache) override {
    Tensor x = decoder_embeddings_.forward(in.input_ids, in.positions);
    for (size_t i = 0; i < decoder_layers_.size(); ++i)
      x = decoder_layers_[i].forward(x, in, cache.layers[i]);
    return x;
  }

  Tensor compute_logits(const Tensor& hidden) override { return head_.forward(hidden); }
  Tensor compute_logits_shard(const Tensor& hidden) override { return head_.forward_shard(hidden); }

 private:
  Bart(const ModelConfig& c, const Weights& root, const Weights& model, const Build& b)
      : Bart(c, root, model, b, TokenEmbeddings(root, model, c)) {}

  Bart(const ModelConfig& c, const Weights& root, const Weights& model, const Build& b,
       const TokenEmbeddings& tokens)
      : config_(c),
        build_(b),
        encoder_embeddings_(model / "encoder", token_table(tokens.encoder, b, c), b, c),
        // Usually one table; converted to f32 it is kept once.
        decoder_embeddings_(model / "decoder",
                            tokens.decoder.data == tokens.encoder.data
                                ? encoder_embeddings_.tokens
                                : token_table(tokens.decoder, b, c),
                            b, c),
        head_(tokens.head, logits_bias(root, c), b) {
    for (int i = 0; i < c.encoder_layers; ++i)
      encoder_layers_.emplace_back(model / "encoder" / "layers" / i, b.of_many_rows(), c,
                                   encoder_head_dim());
    for (int i = 0; i < c.decoder_layers; ++i)
      decoder_layers_.emplace_back(model / "decoder" / "layers" / i, b, c, decoder_head_dim());
    // Old checkpoints carry the layout's version beside the weights.
    for (const char* side : {"encoder", "decoder"}) (model / side).find_any("version");
  }

  static VocabParallelEmbedding token_table(const HostTensor& tokens, const Build& b,
                                            const ModelConfig& c) {
    const float scale = c.scale_embedding ? std::sqrt(static_cast<float>(c.d_model)) : 1.0f;
    return VocabParallelEmbedding(tokens, b, scale);
  }
  static Tensor logits_bias(const Weights& root, const ModelConfig& c) {
    const auto bias = root.find("final_logits_bias", {1, c.vocab_size});
    return bias ? to_float(*bias) : Tensor();
  }
  int encoder_head_dim() const { return config_.d_model / config_.encoder_attention_heads; }
  int decoder_head_dim() const { return config_.d_model / config_.decoder_attention_heads; }

  ModelConfig config_;
  Build build_;
  Embeddings encoder_embeddings_, decoder_embeddings_;
  std::vector<EncoderLayer> encoder_layers_;
  std::vector<DecoderLayer> decoder_layers_;
  ParallelLMHead head_;
};

}  // namespace

std::unique_ptr<Model> make_bart(const ModelConfig& config, Weights weights, const Build& build) {
  return std::make_unique<Bart>(config, weights, build);
}

}  // namespace tandem
