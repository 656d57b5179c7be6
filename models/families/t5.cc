// T5 (Raffel et al. 2020; HuggingFace T5ForConditionalGeneration, T5ForSequenceClassification,
// T5EncoderModel), mT5, UMT5, ByT5, LongT5 (Guo et al. 2022): RMS norms before each part, no
// biases, relative positions as a bias by distance, scores that are not scaled, heads of a size of
// their own, feed-forward layers with a gate in the later versions. A token of LongT5's encoder
// sees `local_radius` tokens on both sides, and, with transient global attention, summaries of all
// blocks of `global_block_size` tokens.
// Switch Transformers (Fedus et al. 2021): every so manyth feed-forward layer is a mixture of
// experts, of which a token uses one.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "models/blocks/attention/relative_position.h"
#include "models/blocks/seq2seq.h"
#include "models/family.h"
#include "text/tokenizer_json.h"

namespace tandem {
namespace t5 {

// Keys of config.json that ModelConfig does not have.
struct Extras {
  bool gated = false, scaled_logits = false;
  float eps = 1e-6f;
  int num_buckets = 32, max_distance = 128;
  std::optional<int32_t> local_radius = {};  // of an encoder with windows
  int summary_block = 0;                     // tokens of a summary; 0: there are none
  std::optional<ExpertsOptions> experts = {};
  int encoder_sparse_step = 0, decoder_sparse_step = 0;  // of layers with experts; 0: none
};

bool is_long(const ModelConfig& c) { return c.model_type == "longt5"; }
bool has_experts(const ModelConfig& c) { return c.model_type == "switch_transformers"; }
// The first T5's defaults, which those of its successors differ from.
bool has_first_defaults(const ModelConfig& c) {
  return c.model_type == "t5" || is_long(c) || has_experts(c);
}

// HuggingFace's arithmetic.
int sparse_step(const ConfigReader& in, const char* key, int layers) {
  const int sparse = count_or(in, key, 3);
  return sparse > 0 ? layers / sparse : layers;
}

void read_experts(const ConfigReader& in, const ModelConfig& c, Extras& out) {
  out.experts = ExpertsOptions{.count = size_or(in, "num_experts", in.kMaxCount, 8),
                               .capacity = size_or(in, "expert_capacity", in.kMaxRows, 64)};
  if (in.flag("router_bias", false)) out.experts->router_bias = Bias::kRequired;
  out.encoder_sparse_step = sparse_step(in, "num_sparse_encoder_layers", c.encoder_layers);
  out.decoder_sparse_step = sparse_step(in, "num_sparse_decoder_layers", c.decoder_layers);
}

void read_long_attention(const ConfigReader& in, Extras& out) {
  const char* key = "encoder_attention_type";
  const std::string type = in.find(key) ? in.string(key) : "local";
  if (type != "local" && type != "transient-global")
    in.fail(key, R"(must be "local" or "transient-global", found ")" + type + '"');
  out.local_radius = in.size("local_radius", in.kMaxRows).value_or(127);
  if (type == "local") return;
  out.summary_block = in.size("global_block_size", in.kMaxRows).value_or(16);
  // (HuggingFace finds the blocks by adding 1 / size in float32: exact for powers of two alone.)
  if (!std::has_single_bit(static_cast<unsigned>(out.summary_block)))
    in.fail("global_block_size",
            "must be a power of two, found " + std::to_string(out.summary_block));
}

Extras read_extras(const ConfigReader& in, const ModelConfig& c) {
  Extras out;
  out.gated = in.find("feed_forward_proj") ? in.string("feed_forward_proj").starts_with("gated-")
                                           : !has_first_defaults(c);
  // HuggingFace's mT5 has no such scale, whatever its files say.
  out.scaled_logits =
      c.model_type != "mt5" && in.flag("scale_decoder_outputs", c.tie_word_embeddings);
  out.eps = in.positive("layer_norm_epsilon", 1e-6f);
  out.num_buckets = in.size("relative_attention_num_buckets", in.kMaxRows).value_or(32);
  out.max_distance = in.size("relative_attention_max_distance", in.kMaxRows).value_or(128);
  if (is_long(c)) read_long_attention(in, out);
  if (has_experts(c)) read_experts(in, c, out);
  return out;
}

Activation read_activation(const ConfigReader& in, const ModelConfig& c) {
  const char* key = has_experts(c) ? "dense_act_fn" : "feed_forward_proj";
  std::string name = in.find(key) ? in.string(key) : has_first_defaults(c) ? "relu" : "gated-gelu";
  if (name == "gated-gelu") return Activation::kGeluTanh;  // HuggingFace's gelu_new
  if (name.starts_with("gated-")) name.erase(0, std::string_view("gated-").size());
  return in.activation_named(key, name);
}

void read_config(const ConfigReader& in, ModelConfig& c) {
  const bool first = has_first_defaults(c);
  const auto size = [&](const char* key, int otherwise, const char* alias = nullptr) {
    return in.size(key, in.kMaxWidth, alias).value_or(otherwise);
  };
  const auto count = [&](const char* key, int otherwise, const char* alias = nullptr) {
    return in.size(key, in.kMaxCount, alias).value_or(otherwise);
  };
  c.vocab_size = in.size("vocab_size", in.kMaxRows).value_or(first ? 32128 : 250112);
  const bool large = has_experts(c);
  c.d_model = size("d_model", large ? 768 : 512, "hidden_size");
  c.head_dim = size("d_kv", 64, "head_dim");
  c.encoder_ffn_dim = c.decoder_ffn_dim = size("d_ff", first ? 2048 : 1024);
  const int layers = count("num_layers", large   ? 12
                                         : first ? 6
                                                 : 8);  // of the decoder, whatever the alias says
  c.encoder_layers = count("num_layers", layers, "num_hidden_layers");
  c.decoder_layers = count("num_decoder_layers", layers);
  if (!tasks_of_class(c).need_decoder()) c.decoder_layers = 0;
  c.encoder_attention_heads = c.decoder_attention_heads = count("num_heads",
                                                                large   ? 12
                                                                : first ? 8
                                                                        : 6,
                                                                "num_attention_heads");
  c.tie_word_embeddings = in.flag("tie_word_embeddings", c.model_type != "mt5");
  c.activation = read_activation(in, c);
  read_extras(in, c);  // what is wrong is said now
}

ModelLimits limits(const ModelConfig& c) {
  ModelLimits out = encoder_decoder_limits(c);
  const int64_t width = std::max(c.encoder_ffn_dim, c.decoder_ffn_dim);
  out.scratch_values_per_token += width;  // gate and factor side by side
  if (const int block = read_extras(c.reader(), c).summary_block; block > 0)
    out.scratch_values_per_token += int64_t{SummaryAttention::kScratchWidths} *
                                    std::max(c.d_model, c.encoder_heads_width()) / block;
  out.widest_linear = std::max(out.widest_linear, 2 * width);
  return out;
}

constexpr LayerOptions::Names kEncoderNames{.self_attention = "layer.0.SelfAttention",
                                            .self_norm = "layer.0.layer_norm",
                                            .fc1 = "layer.1.DenseReluDense.wi",
                                            .gate = "layer.1.DenseReluDense.wi_1",
                                            .fc2 = "layer.1.DenseReluDense.wo",
                                            .final_norm = "layer.1.layer_norm"};
constexpr LayerOptions::Names kDecoderNames{.self_attention = "layer.0.SelfAttention",
                                            .self_norm = "layer.0.layer_norm",
                                            .cross_attention = "layer.1.EncDecAttention",
                                            .cross_norm = "layer.1.layer_norm",
                                            .fc1 = "layer.2.DenseReluDense.wi",
                                            .gate = "layer.2.DenseReluDense.wi_1",
                                            .fc2 = "layer.2.DenseReluDense.wo",
                                            .final_norm = "layer.2.layer_norm"};

void set_layers(SideOptions& side, LayerOptions::Names names, const char* gated_fc1,
                const Extras& extras) {
  if (extras.gated) names.fc1 = gated_fc1;
  LayerOptions& layer = side.layer;
  layer.names = names;
  layer.norm_kind = NormKind::kRms;
  layer.eps = extras.eps;
  for (AttentionOptions* o : {&layer.self_attention, &layer.cross_attention}) {
    o->scale = 1.0f;
    o->eps = extras.eps;
    o->bias = Bias::kNone;
    o->names = {"q", "k", "v", "o"};
  }
  layer.feed_forward.gated = extras.gated;
  layer.feed_forward.bias = Bias::kNone;
  side.layers = "block";
  side.final_norm = "final_layer_norm";
}

void set_position_biases(SideOptions& side, const Weights& w, const Build& b, bool of_each,
                         const RelativeBuckets& buckets) {
  const auto biases = [&](const char* table) {
    return relative_position_biases(
        w / side.layers, side.layer.names.self_attention + std::string(".") + table, b,
        side.num_layers, of_each, side.layer.self_attention.heads, buckets);
  };
  auto of_tokens = biases("relative_attention_bias");
  std::vector<ops::PositionBias> of_summaries;
  if (side.layer.summary_attention) of_summaries = biases("global_relative_attention_bias");
  side.of_layer = [of_tokens, of_summaries](int i, LayerOptions& layer) {
    const auto at = static_cast<size_t>(i);
    layer.self_attention.position_bias = of_tokens.at(at);
    if (layer.summary_attention) layer.summary_attention->bias = of_summaries.at(at);
  };
}

// `scope`: of experts, or of the one feed-forward layer of the layers between.
void add_experts(SideOptions& side, const Extras& extras, int step, const char* scope,
                 const char* fc1, const char* fc2) {
  if (!extras.experts) return;
  ExpertsOptions experts = *extras.experts;
  experts.scope = scope;
  side.layer.names.fc1 = fc1;
  side.layer.names.fc2 = fc2;
  side.of_layer = [before = side.of_layer, experts, step](int i, LayerOptions& layer) {
    before(i, layer);
    if (step == 1 || (step > 0 && i % step == 1)) layer.experts = experts;
  };
}

// Nothing of the decoder in a class that is an encoder alone.
SideOptions decoder_options(const ModelConfig& c, const Weights& decoder, const Build& b,
                            const Extras& extras, bool of_each) {
  SideOptions out = decoder_side(c, NormPlace::kPre);
  if (c.decoder_layers == 0) {
    decoder.skip();
    return out;
  }
  set_layers(out, kDecoderNames, "layer.2.DenseReluDense.wi_0", extras);
  set_position_biases(out, decoder, b, of_each, {false, extras.num_buckets, extras.max_distance});
  add_experts(out, extras, extras.decoder_sparse_step, "layer.2.mlp", "layer.2.mlp.wi",
              "layer.2.mlp.wo");
  // The first T5 have a table there that nothing reads.
  decoder.find_any("block.0.layer.1.EncDecAttention.relative_attention_bias.weight");
  return out;
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Extras extras = read_extras(c.reader(), c);
  const Weights encoder = root / "encoder", decoder = root / "decoder";
  ModelConfig tied = c;  // without a head in the file the embeddings are it, whatever the key says
  tied.tie_word_embeddings = true;
  const TokenTables tables(root, root, tied, TokenTables::Order::kEncoderDecoderHead);
  TokenEmbeddings tokens(tables, b, c);
  Seq2Seq::Parts parts{[&] { return Embeddings(tokens.encoder(), Positions::none()); },
                       [&] { return Embeddings(tokens.decoder(), Positions::none()); },
                       {}};
  parts.output_head = [&] { return find_output_head(root, b, c); };
  const float scale = extras.scaled_logits ? 1.0f / std::sqrt(static_cast<float>(c.d_model)) : 1.0f;
  if (tasks_of_class(c).has(Task::kGenerate))
    parts.head = [&] { return ParallelLMHead(tables.head, Tensor(), b, scale); };
  SideOptions of_encoder = encoder_side(c, NormPlace::kPre);
  LayerOptions::Names names = kEncoderNames;
  if (extras.local_radius) {
    names.self_attention = "layer.0.LocalSelfAttention";
    of_encoder.layer.self_attention.window = {*extras.local_radius, *extras.local_radius};
  }
  if (extras.summary_block > 0) {
    names.self_attention = "layer.0.TransientGlobalSelfAttention";
    of_encoder.layer.summary_attention = {extras.summary_block, "global_input_layer_norm"};
  }
  set_layers(of_encoder, names, "layer.1.DenseReluDense.wi_0", extras);
  const bool of_each = c.model_type == "umt5";  // else all layers have the first one's
  set_position_biases(of_encoder, encoder, b, of_each,
                      {true, extras.num_buckets, extras.max_distance});
  add_experts(of_encoder, extras, extras.encoder_sparse_step, "layer.1.mlp", "layer.1.mlp.wi",
              "layer.1.mlp.wo");
  const SideOptions of_decoder = decoder_options(c, decoder, b, extras, of_each);
  return std::make_unique<Seq2Seq>(c, b, std::move(parts), encoder, of_encoder, decoder,
                                   of_decoder);
}

int32_t extra_ids(const JsonView& config, int32_t otherwise) {
  const auto named = config.find("extra_ids");
  return named ? named->count(kMaxExtraIds) : otherwise;
}

// The last one is <extra_id_0>.
TokenizerRule::PieceFile::Tokens sentinels(const JsonView& config) {
  TokenizerRule::PieceFile::Tokens out;
  for (int32_t i = extra_ids(config, 100); i > 0; --i)
    out.push_back({"<extra_id_" + std::to_string(i - 1) + ">"});
  return out;
}

std::vector<std::string> extra_tokens(int32_t count) {
  std::vector<std::string> out;
  for (int32_t i = 0; i < count; ++i) out.push_back("<extra_id_" + std::to_string(i) + ">");
  return out;
}

TokenizerRule tokenizer(const char* class_name, const char* model_type) {
  TokenizerRule rule{class_name, model_type, TokenizerRule::Kind::kUnigram};
  rule.words.unknown_id = 2;
  rule.extra_tokens = [](const JsonView& config) { return extra_tokens(extra_ids(config, 100)); };
  rule.pieces.name = "spiece.model";
  rule.pieces.behind = sentinels;
  rule.special_tokens =
      class_tokens({{"eos_token", "</s>"}, {"unk_token", "<unk>"}, {"pad_token", "<pad>"}});
  rule.single = {"$A", "eos_token"};
  rule.pair = {"$A", "eos_token", "$B", "eos_token"};
  return rule;
}

// ByT5's, whose <extra_id_0> is the first one, and whose special tokens take white space with them.
TokenizerRule byte_tokenizer() {
  TokenizerRule rule{"ByT5Tokenizer", "byt5", TokenizerRule::Kind::kBytes};
  rule.extra_tokens = [](const JsonView& config) { return extra_tokens(extra_ids(config, 125)); };
  rule.special_tokens =
      class_tokens({{"pad_token", "<pad>"}, {"eos_token", "</s>"}, {"unk_token", "<unk>"}});
  for (auto& [key, token] : rule.special_tokens) token.lstrip = token.rstrip = true;
  rule.single = {"$A", "eos_token"};
  rule.pair = {"$A", "eos_token", "$B", "eos_token"};
  return rule;
}

ModelFamily family(const char* model_type, std::vector<std::string> architectures,
                   std::vector<TokenizerRule> tokenizers = {}) {
  return {.model_type = model_type,
          .architectures = std::move(architectures),
          .base = "transformer",
          .special_tokens = {.pad = 0, .eos = 1, .decoder_start = 0},
          .read_config = read_config,
          .limits = limits,
          .tokenizers = std::move(tokenizers),
          .make = make};
}

}  // namespace t5

ModelFamily t5_family() {
  using namespace t5;
  return family("t5",
                {"T5ForConditionalGeneration", "T5WithLMHeadModel", "T5ForSequenceClassification",
                 "T5ForQuestionAnswering", "T5EncoderModel"},
                {tokenizer("T5Tokenizer", "t5"), byte_tokenizer()});
}
ModelFamily mt5_family() {
  using namespace t5;
  return family("mt5",
                {"MT5ForConditionalGeneration", "MT5ForSequenceClassification",
                 "MT5ForQuestionAnswering", "MT5EncoderModel"},
                {tokenizer("MT5Tokenizer", "mt5")});
}
ModelFamily umt5_family() {
  using namespace t5;
  return family("umt5",
                {"UMT5ForConditionalGeneration", "UMT5ForSequenceClassification",
                 "UMT5ForQuestionAnswering", "UMT5EncoderModel"},
                {TokenizerRule{"", "umt5", TokenizerRule::Kind::kFile}});
}

ModelFamily switch_transformers_family() {
  using namespace t5;
  return family("switch_transformers",
                {"SwitchTransformersForConditionalGeneration", "SwitchTransformersEncoderModel"});
}
ModelFamily longt5_family() {
  using namespace t5;
  return family("longt5", {"LongT5ForConditionalGeneration", "LongT5EncoderModel"});
}

}  // namespace tandem
