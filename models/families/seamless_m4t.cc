// SeamlessM4T (Seamless team 2023; HuggingFace SeamlessM4TForTextToText,
// SeamlessM4Tv2ForTextToText), from text to text: NLLB's layers under other names. The decoder
// starts with the end token and the target's language. What hears and speaks in a file is not read.
#include <string>
#include <utility>

#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace seamless_m4t {

constexpr int kPad = 0;  // HuggingFace's, where config.json names none

constexpr EncoderDecoderDefaults defaults(int positions) {
  EncoderDecoderDefaults out = fairseq_defaults(256102);
  out.encoder_layers = out.decoder_layers = 24;
  out.encoder_ffn_dim = out.decoder_ffn_dim = 8192;
  out.max_position_embeddings = positions;
  out.activation = "relu";
  out.scale_embedding = true;
  return out;
}

// HuggingFace's general names are the decoder's here.
void read_config(const ConfigReader& in, ModelConfig& c) {
  read_encoder_decoder(in, defaults(c.model_type == "seamless_m4t" ? 1024 : 4096), c);
  c.encoder_layers = size_or(in, "encoder_layers", in.kMaxCount, 24);
  c.decoder_layers = in.size("decoder_layers", in.kMaxCount, "num_hidden_layers").value_or(24);
  c.encoder_attention_heads = size_or(in, "encoder_attention_heads", in.kMaxCount, 16);
  c.decoder_attention_heads =
      in.size("decoder_attention_heads", in.kMaxCount, "num_attention_heads").value_or(16);
  for (const int heads : {c.encoder_attention_heads, c.decoder_attention_heads})
    if (c.d_model % heads != 0)
      in.fail("hidden_size", "is no multiple of " + std::to_string(heads) + " heads");
  const int pad = padding_of(in, kPad);
  if (pad < 0 || pad >= c.vocab_size)
    in.fail("pad_token_id", "is " + std::to_string(pad) + ", which is not in the vocabulary");
}

ModelLimits limits(const ModelConfig& c) {
  ModelLimits out = encoder_decoder_limits(c);
  const int pad = padding_of(c.reader(), kPad);
  out.position_padding = {pad, pad};
  return out;
}

void name_parts(SideOptions& side) {
  LayerOptions::Names& names = side.layer.names;
  names.cross_attention = "cross_attention";
  names.cross_norm = "cross_attention_layer_norm";
  names.fc1 = "ffn.fc1";
  names.fc2 = "ffn.fc2";
  names.final_norm = "ffn_layer_norm";
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  for (const char* other : {"speech_encoder", "t2u_model", "vocoder"}) (root / other).skip();
  const Positions table = Positions::fairseq_sinusoidal(b, c.max_position_embeddings, c.d_model,
                                                        padding_of(c.reader(), kPad));
  FairseqShape shape{
      .sides = {"text_encoder", "text_decoder"}, .norms = NormPlace::kPre, .positions = {}};
  shape.positions = [&](const Weights& side) {
    (side / "embed_positions").find_any("weights");
    return table;
  };
  shape.encoder = shape.decoder = name_parts;
  return make_fairseq_model(c, root, b, shape);
}

// The pieces' symbol, which the expressions below look for.
constexpr const char* kSpace = "\u2581";

using Json = nlohmann::json;

Json replaced(const char* kind, const std::string& from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{kind, from}}}, {"content", to}};
}

void stages(const TokenizerRule::StageInput& in, Json& document) {
  Json model = std::move(document["model"]);
  document["model"] = {{"type", "BPE"},
                       {"vocab", std::move(model["vocab"])},
                       {"merges", std::move(model["merges"])},
                       {"unk_token", in.token("unk_token")},
                       {"fuse_unk", true},
                       {"byte_fallback", false}};
  const std::string space = kSpace;
  Json steps = Json::array({replaced("Regex", "[\\n\\r\\t]", " "),
                            {{"type", "NFKC"}},
                            {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}},
                            replaced("Regex", " +" + space, kSpace),
                            replaced("Regex", "^" + space + "+$", ""),
                            replaced("Regex", " {2,}", kSpace)});
  document["normalizer"] = {{"type", "Sequence"}, {"normalizers", std::move(steps)}};
  const Json words = {{"type", "Metaspace"}, {"replacement", kSpace}, {"prepend_scheme", "first"}};
  document["pre_tokenizer"] = words;
  document["decoder"] = words;
}

TokenizerRule tokenizer(const char* model_type) {
  TokenizerRule rule{"SeamlessM4TTokenizer", model_type, TokenizerRule::Kind::kPieceBpe};
  rule.stages = stages;
  rule.pieces = {"sentencepiece.bpe.model", /*replaced=*/3,
                 [](const JsonView&) -> TokenizerRule::PieceFile::Tokens {
                   return {{"<pad>"}, {"<unk>"}, {"<s>"}, {"</s>"}};
                 }};
  rule.special_tokens = class_tokens({{"bos_token", "<s>"},
                                      {"eos_token", "</s>"},
                                      {"sep_token", "</s>"},
                                      {"cls_token", "<s>"},
                                      {"unk_token", "<unk>"},
                                      {"pad_token", "<pad>"}});
  rule.languages = {"__", "__", "eng", TokenizerRule::Languages::Target::kDecoderPrompt};
  rule.single = {"$source", "$A", "eos_token"};
  rule.pair = {"$source", "$A", "$B", "eos_token"};
  return rule;
}

ModelFamily family(const char* model_type, std::vector<std::string> architectures) {
  return {.model_type = model_type,
          .architectures = std::move(architectures),
          .special_tokens = {.bos = 2, .pad = kPad, .eos = 3, .decoder_start = 3},
          .read_config = read_config,
          .limits = limits,
          .tokenizers = {tokenizer(model_type)},
          .make = make};
}

}  // namespace seamless_m4t

ModelFamily seamless_m4t_family() {
  using namespace seamless_m4t;
  return family("seamless_m4t", {"SeamlessM4TForTextToText", "SeamlessM4TModel"});
}
ModelFamily seamless_m4t_v2_family() {
  using namespace seamless_m4t;
  return family("seamless_m4t_v2", {"SeamlessM4Tv2ForTextToText", "SeamlessM4Tv2Model"});
}

}  // namespace tandem
