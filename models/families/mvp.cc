// MVP (Tang et al. 2022; HuggingFace MvpForConditionalGeneration): BART; checkpoints with prompts
// in their layers are refused.
#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace mvp {

constexpr int kPositionOffset = 2;

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  return make_fairseq_model(c, root, b, NormPlace::kPost, /*embedding_norm=*/true, kPositionOffset,
                            TokenTables::Order::kHeadEncoderDecoder);
}

constexpr EncoderDecoderDefaults kDefaults = fairseq_defaults(50267);

void read_config(const ConfigReader& in, ModelConfig& out) {
  read_encoder_decoder(in, kDefaults, out);
  if (in.flag("use_prompt", false))
    throw not_supported("use_prompt", "prompts in the layers of MVP are not supported");
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"MvpTokenizer", "mvp"};
  rule.special_tokens = fairseq_tokens();
  rule.single = {"cls_token", "$A", "sep_token"};
  rule.pair = {"cls_token", "$A", "sep_token", "sep_token", "$B", "sep_token"};
  return rule;
}

}  // namespace mvp

ModelFamily mvp_family() {
  using namespace mvp;
  return {.model_type = "mvp",
          .architectures = {"MvpForConditionalGeneration", "MvpModel"},
          .special_tokens = {.bos = 0, .pad = 1, .eos = 2, .decoder_start = 2},
          .read_config = read_config,
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
