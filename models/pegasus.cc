// Pegasus (Zhang et al. 2020; HuggingFace PegasusForConditionalGeneration): pre-norm layers with a
// norm behind the last one, sinusoidal positions, tied output embedding.
#include <cstdint>
#include <string>

#include "models/blocks/fairseq_model.h"
#include "models/family.h"
#include "text/tokenizer_json.h"

namespace tandem {
namespace {

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const auto positions = [&](const Weights& side) {
    return Positions::sinusoidal(side, b, c.max_position_embeddings, c.d_model);
  };
  return make_fairseq_model(c, root, b, {.norms = NormPlace::kPre, .positions = positions});
}

constexpr EncoderDecoderDefaults kDefaults = fairseq_defaults(50265);

// Ids up to `offset` are for training.
TokenizerRule::PieceFile::Tokens first_tokens(const JsonView& config) {
  const auto offset = config.find("offset");
  TokenizerRule::PieceFile::Tokens out = {{"<pad>"}, {"</s>"}, {"<mask_1>"}, {"<mask_2>"}};
  for (int32_t i = 2, n = offset ? offset->count(kMaxExtraIds) : 103; i < n; ++i)
    out.push_back({"<unk_" + std::to_string(i) + ">", -100.0});
  return out;
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"PegasusTokenizer", "pegasus", TokenizerRule::Kind::kUnigram};
  rule.words = {TokenizerRule::WordOptions::Normalizer::kTableAndSpaces,
                /*split_whitespace=*/false};
  rule.pieces = {"spiece.model", /*replaced=*/2, first_tokens};
  rule.special_tokens = class_tokens({{"eos_token", "</s>"},
                                      {"unk_token", "<unk>"},
                                      {"pad_token", "<pad>"},
                                      {"mask_token", "<mask_2>"},
                                      {"mask_token_sent", "<mask_1>"}});
  rule.single = {"$A", "eos_token"};
  rule.pair = {"$A", "$B", "eos_token"};
  return rule;
}

}  // namespace

ModelFamily pegasus_family() {
  return {.model_type = "pegasus",
          .architectures = {"PegasusForConditionalGeneration", "PegasusModel"},
          .special_tokens = {.pad = 0, .eos = 1, .decoder_start = 0},
          .read_config = [](const ConfigReader& in,
                            ModelConfig& out) { read_encoder_decoder(in, kDefaults, out); },
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
