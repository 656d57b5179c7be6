// Pegasus (Zhang et al. 2020; HuggingFace PegasusForConditionalGeneration): pre-norm layers with a
// norm behind the last one, sinusoidal positions, tied output embedding.
#include <cstdint>
#include <string>
#include <vector>

#include "base/strings/printable.h"
#include "models/blocks/fairseq_model.h"
#include "models/family.h"
#include "text/tokenizer_json.h"

namespace tandem {
namespace pegasus {

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const auto positions = [&](const Weights& side) {
    return Positions::sinusoidal(side, b, c.max_position_embeddings, c.d_model);
  };
  return make_fairseq_model(c, root, b, {.norms = NormPlace::kPre, .positions = positions});
}

constexpr EncoderDecoderDefaults kDefaults = fairseq_defaults(50265);

// Ids up to that one are for training.
int32_t offset_of(const JsonView& config) {
  const auto offset = config.find("offset");
  return offset ? offset->count(kMaxExtraIds) : 103;
}

bool is_null(const JsonView& config, const char* key) {
  const auto token = config.object().find(key);
  return token != config.object().end() && token->is_null();
}

// HuggingFace's converter has other names for the masks than its class where no file names them.
TokenizerRule::PieceFile::Tokens first_tokens(const JsonView& config) {
  TokenizerRule::PieceFile::Tokens out = {{token_of(config, "pad_token", "<pad>")},
                                          {token_of(config, "eos_token", "</s>")}};
  const std::string mask = token_of(config, "mask_token", "<mask_1>");
  const std::string sentence = token_of(config, "mask_token_sent", "<mask_2>");
  const bool has_mask = !is_null(config, "mask_token");
  if (has_mask) out.push_back({mask});
  if (!is_null(config, "mask_token_sent") && !(has_mask && sentence == mask))
    out.push_back({sentence});
  for (int32_t i = 2, n = offset_of(config); i < n; ++i)
    out.push_back({"<unk_" + std::to_string(i) + ">", -100.0});
  return out;
}

std::vector<std::string> extra_tokens(const JsonView& config) {
  std::vector<std::string> out;
  if (!is_null(config, "mask_token_sent"))
    out.push_back(token_of(config, "mask_token_sent", "<mask_1>"));
  for (int32_t i = 2, n = offset_of(config); i < n; ++i)
    out.push_back("<unk_" + std::to_string(i) + ">");
  return out;
}

// Behind the first one, and of score 0.
int32_t find_unknown(const nlohmann::json& vocabulary, const std::string& token) {
  for (size_t id = 1; id < vocabulary.size(); ++id)
    if (vocabulary[id].is_array() && vocabulary[id].size() == 2 && vocabulary[id][0] == token &&
        vocabulary[id][1] == 0.0)
      return static_cast<int32_t>(id);
  throw invalid_model("tokenizer.json",
                      in_quotes(token) + " with score 0 is not in the vocabulary");
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"PegasusTokenizer", "pegasus", TokenizerRule::Kind::kUnigram};
  rule.words = {TokenizerRule::WordOptions::Normalizer::kTableAndSpaces,
                /*split_whitespace=*/false};
  rule.words.without_table = TokenizerRule::WordOptions::WithoutTable::kLines;
  rule.words.find_unknown = find_unknown;
  rule.pieces = {"spiece.model", /*replaced=*/2, first_tokens};
  rule.special_tokens = class_tokens({{"eos_token", "</s>"},
                                      {"unk_token", "<unk>"},
                                      {"pad_token", "<pad>"},
                                      {"mask_token", "<mask_2>"}});
  rule.extra_tokens = extra_tokens;
  rule.single = {"$A", "eos_token"};
  rule.pair = {"$A", "$B", "eos_token"};
  return rule;
}

}  // namespace pegasus

ModelFamily pegasus_family() {
  using namespace pegasus;
  return {.model_type = "pegasus",
          .architectures = {"PegasusForConditionalGeneration", "PegasusModel"},
          .special_tokens = {.pad = 0, .eos = 1, .decoder_start = 0},
          .read_config = [](const ConfigReader& in,
                            ModelConfig& out) { read_encoder_decoder(in, kDefaults, out); },
          .tokenizers = {tokenizer()},
          .make = make};
}

}  // namespace tandem
