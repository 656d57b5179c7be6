// mBART and mBART-50 (Liu et al. 2020, Tang et al. 2020; HuggingFace
// MBartForConditionalGeneration): BART with pre-norm layers and a norm behind the last one.
#include <utility>

#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace {

constexpr int kPositionOffset = 2;

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  return make_fairseq_model(c, root, b, NormPlace::kPre, /*embedding_norm=*/true, kPositionOffset);
}

constexpr EncoderDecoderDefaults kDefaults = fairseq_defaults(50265);

using Normalizer = TokenizerRule::WordOptions::Normalizer;

using Target = TokenizerRule::Languages::Target;

TokenizerRule with_special_tokens(TokenizerRule rule, Target target) {
  rule.special_tokens = fairseq_tokens(/*mask_takes_space=*/true);
  rule.languages.fallback = "en_XX";
  rule.languages.target = target;
  return rule;
}

// HuggingFace drops the file's normalizer.
TokenizerRule mbart_tokenizer() {
  TokenizerRule rule{"MBartTokenizer", "mbart", TokenizerRule::Kind::kUnigram};
  rule.words = {Normalizer::kNone, /*split_whitespace=*/true, /*from_pieces=*/false};
  rule.single = {"$A", "eos_token", "$source"};
  rule.pair = {"$A", "$B", "eos_token", "$source"};
  return with_special_tokens(std::move(rule), Target::kDecoderStart);
}

TokenizerRule mbart50_tokenizer() {
  TokenizerRule rule{"MBart50Tokenizer", "mbart50", TokenizerRule::Kind::kUnigram};
  rule.words = {Normalizer::kTableAndSpaces, /*split_whitespace=*/false, /*from_pieces=*/false};
  rule.single = {"$source", "$A", "eos_token"};
  rule.pair = {"$source", "$A", "$B", "eos_token"};
  return with_special_tokens(std::move(rule), Target::kForcedBos);
}

}  // namespace

ModelFamily mbart_family() {
  return {.model_type = "mbart",
          .architectures = {"MBartForConditionalGeneration", "MBartModel"},
          .special_tokens = {.bos = 0, .pad = 1, .eos = 2},
          .read_config = [](const ConfigReader& in,
                            ModelConfig& out) { read_encoder_decoder(in, kDefaults, out); },
          .tokenizers = {mbart_tokenizer(), mbart50_tokenizer()},
          .make = make};
}

}  // namespace tandem
