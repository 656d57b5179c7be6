// BigBird-Pegasus (Zaheer et al. 2020; HuggingFace BigBirdPegasusForConditionalGeneration): Pegasus
// for long inputs, with attention of blocks. Learned positions, scaled embeddings; a norm behind
// the last layer that is called one of the embeddings. A long input is computed alike whatever was
// computed before. (HuggingFace's model keeps to attention to everything after one short input.)
#include <string>

#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace bigbird_pegasus {

constexpr EncoderDecoderDefaults kDefaults = [] {
  EncoderDecoderDefaults out = fairseq_defaults(96103);
  out.encoder_layers = out.decoder_layers = 16;
  out.max_position_embeddings = 4096;
  out.activation = "gelu_new";
  out.scale_embedding = true;
  return out;
}();

// Keys of config.json that ModelConfig does not have.
struct Extras {
  SparseBlocks blocks;
  Bias bias = Bias::kNone;  // of attention
};

Extras read_extras(const ConfigReader& in) {
  Extras out;
  const char* key = "attention_type";
  const std::string type = in.find(key) ? in.string(key) : "block_sparse";
  if (type != "block_sparse" && type != "original_full")
    in.fail(key, R"(must be "block_sparse" or "original_full", found ")" + type + '"');
  if (in.flag("use_bias", false)) out.bias = Bias::kRequired;
  if (type == "block_sparse")
    out.blocks = {size_or(in, "block_size", in.kMaxRows, 64), count_or(in, "num_random_blocks", 3)};
  return out;
}

void read_config(const ConfigReader& in, ModelConfig& out) {
  read_encoder_decoder(in, kDefaults, out);
  read_extras(in);  // what is wrong is said now
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Extras extras = read_extras(c.reader());
  return make_fairseq_model(
      c, root, b,
      {.norms = NormPlace::kPre,
       .last_norm = "layernorm_embedding",
       .positions =
           [&](const Weights& side) {
             return Positions::learned(side, b, c.max_position_embeddings, c.d_model, 0);
           },
       .encoder =
           [&](SideOptions& side) {
             AttentionOptions& attention = side.layer.self_attention;
             attention.names = {"self.query", "self.key", "self.value", "output"};
             attention.bias = extras.bias;
             if (extras.blocks.block > 0) side.layer.sparse_attention = extras.blocks;
           },
       .decoder =
           [&](SideOptions& side) {
             side.layer.self_attention.bias = side.layer.cross_attention.bias = extras.bias;
           }});
}

}  // namespace bigbird_pegasus

ModelFamily bigbird_pegasus_family() {
  using namespace bigbird_pegasus;
  return {.model_type = "bigbird_pegasus",
          .architectures = {"BigBirdPegasusForConditionalGeneration", "BigBirdPegasusModel",
                            "BigBirdPegasusForSequenceClassification",
                            "BigBirdPegasusForQuestionAnswering"},
          .special_tokens = {.bos = 2, .pad = 0, .eos = 1, .decoder_start = 2},
          .read_config = read_config,
          .tokenizers = {TokenizerRule{"", "bigbird_pegasus", TokenizerRule::Kind::kFile}},
          .make = make};
}

}  // namespace tandem
