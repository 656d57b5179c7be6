// T5Gemma (HuggingFace T5GemmaForConditionalGeneration) and T5Gemma 2: RMS norms of
// 1 + weight before and behind each part, fewer heads of keys than of queries, rotary positions,
// windows in some layers, sides of sizes of their own. The first has soft caps; the second norms of
// heads, one softmax over the keys of decoder and encoder, an embedding of its own for the end of
// an image, and images among the encoder's tokens.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "models/blocks/pictures/image_rows.h"
#include "models/blocks/seq2seq.h"
#include "models/config/side_config.h"
#include "models/family.h"
#include "models/sides/pooled_pictures.h"

namespace tandem {
namespace t5gemma {

constexpr SideDefaults kFirst{256000, 8192, 2, 1e4f, 0.0f, 50.0f, 30.0f};
constexpr SideDefaults kSecond{262208, 131072, 6, 1e6f, 1e4f, 0.0f, 0.0f};

bool is_first(const ModelConfig& c) { return c.model_type == "t5gemma"; }

// Keys of config.json that ModelConfig does not have.
struct Extras {
  SideConfig encoder, decoder;
  // The second's.
  int image_begin, image, image_end;
  std::optional<PooledPicturesConfig> pictures;
};

Extras read_extras(const ConfigReader& in, bool first) {
  const SideDefaults& defaults = first ? kFirst : kSecond;
  const ConfigReader encoder = part_of(in, "encoder");
  Extras out{read_side(first ? encoder : part_of(encoder, "text_config"), defaults),
             read_side(part_of(in, "decoder"), defaults),
             encoder.size("boi_token_index", in.kMaxRows, "boi_token_id").value_or(255999),
             in.size("image_token_index", in.kMaxRows, "image_token_id").value_or(262144),
             encoder.size("eoi_token_index", in.kMaxRows, "eoi_token_id").value_or(256000),
             {}};
  if (!first)
    out.pictures = read_pooled_pictures(part_or_empty(encoder, "vision_config"),
                                        size_or(encoder, "mm_tokens_per_image", in.kMaxRows, 256),
                                        out.encoder.d_model);
  if (out.encoder.vocab_size != out.decoder.vocab_size)
    in.fail("decoder", "vocab_size differs from the encoder's, which is not supported");
  if (!first && out.encoder.d_model != out.decoder.d_model)
    in.fail("decoder", "hidden_size differs from the encoder's");
  return out;
}

Extras read_extras(const ModelConfig& c) { return read_extras(c.reader(), is_first(c)); }

void read_config(const ConfigReader& in, ModelConfig& c) {
  const Extras extras = read_extras(in, is_first(c));
  const SideConfig &encoder = extras.encoder, &decoder = extras.decoder;
  c.vocab_size = decoder.vocab_size;
  c.d_model = encoder.d_model;
  c.head_dim = encoder.head_dim;
  c.encoder_layers = encoder.layers;
  c.decoder_layers = decoder.layers;
  c.encoder_attention_heads = encoder.heads;
  c.decoder_attention_heads = decoder.heads;
  c.encoder_ffn_dim = encoder.ffn_dim;
  c.decoder_ffn_dim = decoder.ffn_dim;
  c.max_position_embeddings = std::min(encoder.max_positions, decoder.max_positions);
  c.activation = decoder.activation;
  c.scale_embedding = true;
  c.tie_word_embeddings = in.flag("tie_word_embeddings", true);
}

ModelLimits limits(const ModelConfig& c) {
  const Extras extras = read_extras(c);
  ModelLimits out;
  out.encoder_positions = extras.encoder.max_positions;
  out.decoder_positions = extras.decoder.max_positions;
  out.hidden_size = extras.encoder.d_model;
  for (const SideConfig* s : {&extras.encoder, &extras.decoder}) {
    const int64_t heads = int64_t{s->heads + 2 * s->kv_heads} * s->head_dim;
    const int64_t gated = int64_t{2} * s->ffn_dim, width = s->d_model;
    out.scratch_values_per_token =
        std::max(out.scratch_values_per_token, gated + 2 * heads + 4 * width);
    out.widest_linear = std::max({out.widest_linear, gated, heads, width});
  }
  if (const auto& pictures = extras.pictures) {
    FrameLimits frames{pictures->vision.patches.frame_width()};
    frames.image = pictures->vision.patches;
    frames.beside_ids = FramesBesideIds{extras.image, pictures->vectors()};
    out.frames = std::move(frames);
    out.scratch_values_per_token += pictures->scratch_values();
  }
  const SideConfig& d = extras.decoder;
  out.self_cache_values_per_token = int64_t{2} * d.layers * d.kv_heads * d.head_dim;
  out.cross_cache_values_per_token = out.self_cache_values_per_token;
  out.cache_heads_per_token = int64_t{d.layers} * d.kv_heads;
  return out;
}

constexpr LayerOptions::Names kNames{.self_attention = "self_attn",
                                     .self_norm = "pre_self_attn_layernorm",
                                     .cross_attention = "cross_attn",
                                     .cross_norm = "pre_cross_attn_layernorm",
                                     .fc1 = "mlp.gate_proj",
                                     .gate = "mlp.up_proj",
                                     .fc2 = "mlp.down_proj",
                                     .final_norm = "pre_feedforward_layernorm",
                                     .self_norm_behind = "post_self_attn_layernorm",
                                     .cross_norm_behind = "post_cross_attn_layernorm",
                                     .final_norm_behind = "post_feedforward_layernorm"};

SideOptions options_of(const SideConfig& s, bool first, const ops::Window& window) {
  AttentionOptions attention;
  attention.heads = s.heads;
  attention.head_dim = s.head_dim;
  attention.kv_heads = s.kv_heads;
  attention.scale = s.score_scale;
  attention.soft_cap = first ? s.attention_soft_cap : 0.0f;  // HuggingFace's second does not use it
  attention.bias = s.attention_bias ? Bias::kRequired : Bias::kNone;
  attention.names.out = "o_proj";
  attention.names.q_norm = first ? nullptr : "q_norm";
  attention.names.k_norm = first ? nullptr : "k_norm";
  attention.head_norms = NormKind::kRmsPlusOne;
  attention.eps = s.eps;
  SideOptions out;
  out.layer.norms = NormPlace::kBoth;
  out.layer.d_model = s.d_model;
  out.layer.self_attention = out.layer.cross_attention = attention;
  out.layer.merged_attention = !first;
  out.layer.feed_forward = {s.ffn_dim, s.activation, /*gated=*/true, Bias::kNone};
  out.layer.norm_kind = NormKind::kRmsPlusOne;
  out.layer.eps = s.eps;
  out.layer.names = kNames;
  out.num_layers = s.layers;
  out.final_norm = "norm";
  for (const SideConfig::Rope& rope : {s.rope, s.sliding_rope})
    out.frequencies.push_back(rotary_frequencies(s.head_dim, rope.theta, rope.factor));
  out.of_layer = [sliding = s.sliding, window](int i, LayerOptions& layer) {
    const bool slides = sliding[static_cast<size_t>(i)];
    layer.self_attention.rotary = slides ? 1 : 0;
    if (slides) layer.self_attention.window = window;
  };
  return out;
}

// What the first sees includes the window's ends, what the second sees is as many as it says.
ops::Window encoder_window(int n, bool first) {
  return first ? ops::Window{n, n} : ops::Window{(n + 1) / 2 - 1, n / 2};
}

// Each side's table, and the head's. The second's sides have one under either name.
struct Tables {
  Tables(const Weights& root, const Weights& encoder_side, const Weights& decoder_side,
         const ModelConfig& c, const Extras& extras) {
    const auto find = [&](const Weights& side, const SideConfig& s) {
      return (side / "embed_tokens").find("weight", {c.vocab_size, s.d_model});
    };
    const auto of_encoder = find(encoder_side, extras.encoder);
    const auto of_decoder = find(decoder_side, extras.decoder);
    const bool shared = !is_first(c) && (of_encoder || of_decoder);
    const auto get = [&](const Weights& side, const SideConfig& s) {
      return (side / "embed_tokens").get("weight", {c.vocab_size, s.d_model});
    };
    encoder = shared && !of_encoder ? *of_decoder : get(encoder_side, extras.encoder);
    decoder = shared && !of_decoder ? *of_encoder : get(decoder_side, extras.decoder);
    const Weights projection = root / "lm_head" / "out_proj";
    const Shape shape{c.vocab_size, extras.decoder.d_model};
    head = projection.find("weight", shape).value_or(decoder);
    if (!c.tie_word_embeddings) head = projection.get("weight", shape);
  }
  HostTensor encoder, decoder, head;
};

// The embedding of the end of an image, which both sides share.
std::optional<OwnRow> image_end_row(const Weights& encoder, const Weights& decoder, int id,
                                    const Tables& tables, float scale, const Build& b) {
  const Shape shape{tables.encoder.shape[1]};
  const auto of_decoder = (decoder / "embed_tokens").find("eoi_embedding", shape);
  const HostTensor row =
      of_decoder ? *of_decoder : (encoder / "embed_tokens").get("eoi_embedding", shape);
  (encoder / "embed_tokens").find_any("eoi_embedding");
  if (id >= tables.encoder.shape[0]) return std::nullopt;
  return OwnRow(row, id, tables.encoder, scale, b);
}

// With an image's vectors in place of its tokens' embeddings.
class PictureModel final : public Seq2Seq {
 public:
  PictureModel(const ModelConfig& c, const Build& b, Parts parts, const Weights& encoder,
               const SideOptions& encoder_side, const Weights& decoder,
               const SideOptions& decoder_side, std::optional<PooledPictures> pictures,
               int image_id)
      : Seq2Seq(c, b, std::move(parts), encoder, encoder_side, decoder, decoder_side),
        ctx_(b.ctx),
        pictures_(std::move(pictures)),
        image_id_(image_id) {}

 protected:
  Tensor embed_source(const StepTensors& in) override {
    const Tensor x = Seq2Seq::embed_source(in);
    if (const std::vector<int32_t> rows = image_rows(ctx_, in, image_id_); !rows.empty())
      ops::scatter_rows(ctx_, {pictures_->forward(in), step_list(ctx_, rows), x});
    return x;
  }

 private:
  Context& ctx_;
  std::optional<PooledPictures> pictures_;
  int image_id_;
};

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const bool first = is_first(c);
  const Extras extras = read_extras(c);
  const Shape norm{extras.decoder.d_model};
  const Weights model = scope_of(root, "model", "decoder.norm.weight", norm);
  const Weights decoder = model / "decoder", whole_encoder = model / "encoder";
  const Weights encoder = scope_of(whole_encoder, "text_model", "norm.weight", {c.d_model});
  const Tables tables(root, encoder, decoder, c, extras);
  const float scale = embedding_scale(c);
  ModelConfig of_decoder = c;
  of_decoder.d_model = extras.decoder.d_model;
  TokenEmbeddings tokens(tables.encoder, tables.decoder, b, scale, embedding_scale(of_decoder));
  Seq2Seq::Parts parts{
      [&] { return Embeddings(tokens.encoder(), Positions::none()); },
      [&] { return Embeddings(tokens.decoder(), Positions::none()); },
      [&] { return ParallelLMHead(tables.head, {}, b, 1.0f, extras.decoder.logit_soft_cap); }};
  parts.head_name = "lm_head.out_proj";
  if (!first)
    parts.own_row = [&] {
      return image_end_row(encoder, decoder, extras.image_end, tables, scale, b);
    };
  std::optional<PooledPictures> pictures;
  if (extras.pictures && b.encoder_layers.has_first())
    pictures.emplace(whole_encoder, b, *extras.pictures);
  for (const char* of_images : {"vision_tower", "multi_modal_projector"})
    if (!first && !pictures) (whole_encoder / of_images).skip();
  const SideOptions encoder_side =
      options_of(extras.encoder, first, encoder_window(extras.encoder.window, first));
  SideOptions decoder_side = options_of(extras.decoder, first, {extras.decoder.window - 1, 0});
  decoder_side.layer.cross_attention.kv_width = extras.encoder.d_model;
  if (extras.pictures)
    return std::make_unique<PictureModel>(c, b, std::move(parts), encoder, encoder_side, decoder,
                                          decoder_side, std::move(pictures), extras.image);
  return std::make_unique<Seq2Seq>(c, b, std::move(parts), encoder, encoder_side, decoder,
                                   decoder_side);
}

// HuggingFace's processor's: the token of an image's beginning stands for all of it. It comes first
// where a text has none.
ImageText image_text(const std::string& text, const ImageTextContext& with) {
  if (!with.has_image) return {text};
  const Extras extras = read_extras(with.config);
  const std::string begin = with.token_of(extras.image_begin);
  const size_t at = text.find(begin);
  if (at != text.npos && text.find(begin, at + begin.size()) != text.npos)
    throw invalid_request("prompt", "has " + begin + " more than once; there is one image");
  std::string image = "\n\n" + begin;
  for (int64_t i = 0; i < with.image_positions; ++i) image += with.token_of(extras.image);
  image += with.token_of(extras.image_end) + "\n\n";
  if (at == text.npos) return {image + text};
  return {text.substr(0, at) + image + text.substr(at + begin.size())};
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"GemmaTokenizer", "t5gemma", TokenizerRule::Kind::kTextBpe};
  rule.pieces.name = "tokenizer.model";
  rule.special_tokens = class_tokens({{"bos_token", "<bos>"},
                                      {"eos_token", "<eos>"},
                                      {"unk_token", "<unk>"},
                                      {"pad_token", "<pad>"},
                                      {"mask_token", "<mask>"}});
  return rule;
}

ModelFamily family(const char* model_type, const char* architecture,
                   std::vector<TokenizerRule> tokenizers = {}) {
  return {.model_type = model_type,
          .architectures = {architecture},
          .special_tokens = {.bos = 2, .pad = 0, .eos = 1},
          .read_config = read_config,
          .limits = limits,
          .tokenizers = std::move(tokenizers),
          .make = make};
}

}  // namespace t5gemma

ModelFamily t5gemma_family() {
  using namespace t5gemma;
  return family("t5gemma", "T5GemmaForConditionalGeneration", {tokenizer()});
}
ModelFamily t5gemma2_family() {
  using namespace t5gemma;
  ModelFamily out = family("t5gemma2", "T5Gemma2ForConditionalGeneration");
  out.image_text = image_text;
  return out;
}

}  // namespace tandem
