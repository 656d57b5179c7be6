// mBART and mBART-50 (Liu et al. 2020, Tang et al. 2020; HuggingFace
// MBartForConditionalGeneration): BART with pre-norm layers and a norm behind the last one.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace mbart {

constexpr int kPositionOffset = 2;

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  return make_fairseq_model(c, root, b, NormPlace::kPre, /*embedding_norm=*/true, kPositionOffset);
}

constexpr EncoderDecoderDefaults kDefaults = fairseq_defaults(50265);

using Normalizer = TokenizerRule::WordOptions::Normalizer;
using Target = TokenizerRule::Languages::Target;

// In the order of their ids.
constexpr std::string_view kLanguages =
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT "
    "lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN";
// mBART-50's, behind those.
constexpr std::string_view kMoreLanguages =
    "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF "
    "pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";

TokenizerRule with_special_tokens(TokenizerRule rule, Target target) {
  rule.special_tokens = fairseq_tokens(/*mask_takes_space=*/true, /*mask_is_normalized=*/true);
  rule.languages.fallback = "en_XX";
  rule.languages.target = target;
  return rule;
}

// HuggingFace drops the file's normalizer.
TokenizerRule mbart_tokenizer() {
  TokenizerRule rule{"MBartTokenizer", "mbart", TokenizerRule::Kind::kUnigram};
  rule.words = {Normalizer::kNone, /*split_whitespace=*/true};
  rule.pieces =
      fairseq_pieces([](const JsonView& config) { return tokens_and_mask({kLanguages}, config); });
  rule.extra_tokens = [](const JsonView&) { return words_of(kLanguages); };
  rule.single = {"$A", "eos_token", "$source"};
  rule.pair = {"$A", "$B", "eos_token", "$source"};
  return with_special_tokens(std::move(rule), Target::kDecoderStart);
}

std::vector<std::string> all_languages() {
  std::vector<std::string> all = words_of(kLanguages);
  for (std::string& name : words_of(kMoreLanguages)) all.push_back(std::move(name));
  return all;
}

// HuggingFace takes a vocabulary without languages for the pieces of a model, and gives it
// fairseq's tokens in front of them and behind.
void add_languages(const TokenizerRule::StageInput& in, nlohmann::json& vocabulary) {
  const std::vector<std::string> languages = all_languages();
  const auto is_language = [&](const nlohmann::json& entry) {
    return entry.is_array() && !entry.empty() && entry[0].is_string() &&
           std::find(languages.begin(), languages.end(), entry[0].get<std::string>()) !=
               languages.end();
  };
  if (!vocabulary.is_array() || std::any_of(vocabulary.begin(), vocabulary.end(), is_language))
    return;
  nlohmann::json out = nlohmann::json::array();
  const auto add = [&](const std::string& token) {
    out.push_back(nlohmann::json::array({token, 0.0}));
  };
  for (const char* key : {"cls_token", "pad_token", "eos_token", "unk_token"}) add(in.token(key));
  for (size_t i = 3; i < vocabulary.size(); ++i) out.push_back(std::move(vocabulary[i]));
  for (const std::string& name : languages) add(name);
  add(in.token("mask_token"));
  vocabulary = std::move(out);
}

TokenizerRule mbart50_tokenizer() {
  TokenizerRule rule{"MBart50Tokenizer", "mbart50", TokenizerRule::Kind::kUnigram};
  rule.words = {Normalizer::kTableAndSpaces, /*split_whitespace=*/false};
  rule.pieces = fairseq_pieces(
      [](const JsonView& config) {
        return tokens_and_mask({kLanguages, kMoreLanguages}, config);
      },
      /*begins_with=*/"cls_token");
  rule.words.change_vocabulary = add_languages;
  rule.extra_tokens = [](const JsonView&) { return all_languages(); };
  rule.languages.only_own = true;
  rule.single = {"$source", "$A", "eos_token"};
  rule.pair = {"$source", "$A", "$B", "eos_token"};
  return with_special_tokens(std::move(rule), Target::kForcedBos);
}

}  // namespace mbart

ModelFamily mbart_family() {
  using namespace mbart;
  return {.model_type = "mbart",
          .architectures = {"MBartForConditionalGeneration", "MBartModel",
                            "MBartForSequenceClassification", "MBartForQuestionAnswering"},
          .special_tokens = {.bos = 0, .pad = 1, .eos = 2},
          .read_config = [](const ConfigReader& in,
                            ModelConfig& out) { read_encoder_decoder(in, kDefaults, out); },
          .shift = language_before_source,
          .tokenizers = {mbart_tokenizer(), mbart50_tokenizer()},
          .make = make};
}

}  // namespace tandem
