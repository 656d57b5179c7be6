// BART (Lewis et al. 2020; HuggingFace BartForConditionalGeneration, BartModel,
// BartForSequenceClassification, BartForQuestionAnswering): post-norm
// layers, learned positions with an offset of 2, a layer norm behind the embeddings, tied output
// embedding.
#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace bart {

constexpr int kPositionOffset = 2;

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  return make_fairseq_model(c, root, b, NormPlace::kPost, /*embedding_norm=*/true, kPositionOffset);
}

constexpr EncoderDecoderDefaults kDefaults = fairseq_defaults(50265);

TokenizerRule tokenizer(const char* class_name, const char* model_type) {
  TokenizerRule rule{class_name, model_type};
  rule.special_tokens = fairseq_tokens();
  rule.single = {"cls_token", "$A", "sep_token"};
  rule.pair = {"cls_token", "$A", "sep_token", "sep_token", "$B", "sep_token"};
  return rule;
}

}  // namespace bart

ModelFamily bart_family() {
  using namespace bart;
  return {
      .model_type = "bart",
      .architectures = {"BartForConditionalGeneration", "BartModel",
                        "BartForSequenceClassification", "BartForQuestionAnswering"},
      .special_tokens = {.bos = 0, .pad = 1, .eos = 2, .decoder_start = 2},
      .read_config = [](const ConfigReader& in,
                        ModelConfig& out) { read_encoder_decoder(in, kDefaults, out); },
      .default_labels = 3,
      .decoder_prompt = start_and_bos_prompt,
      .tokenizers = {tokenizer("BartTokenizer", "bart"), tokenizer("RobertaTokenizer", "roberta")},
      .make = make};
}

}  // namespace tandem
