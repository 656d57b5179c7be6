// M2M100 and NLLB (Fan et al. 2020, NLLB team 2022; HuggingFace M2M100ForConditionalGeneration,
// NllbMoeForConditionalGeneration): pre-norm layers with a norm behind the last one, fairseq's
// sinusoidal positions, scaled embeddings, tied output embedding. In NLLB's largest model every so
// manyth feed-forward layer is a mixture of experts, of which a token uses two.
#include <string>
#include <string_view>
#include <vector>

#include "base/strings/printable.h"
#include "models/blocks/fairseq_model.h"
#include "models/family.h"

namespace tandem {
namespace m2m100 {

constexpr int kPad = 1;  // HuggingFace's, where config.json names none

// Keys of config.json that ModelConfig does not have, of a mixture of experts.
struct Extras {
  ExpertsOptions experts;
  int encoder_step = 0, decoder_step = 0;  // layers with experts; 0: none
};

bool has_experts(const ModelConfig& c) { return c.model_type == "nllb-moe"; }

double number(const ConfigReader& in, const char* key, double otherwise) {
  const nlohmann::json* value = in.find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number() || *value < 0 || *value > 10'000)
    in.fail(key, "is " + in.show(*value) + ", must be a number from 0 to 10000");
  return value->get<double>();
}

// HuggingFace drops tokens by their number in the batch, or at random, where these keys say so.
void check_routing(const ConfigReader& in) {
  const char *policy = "second_expert_policy", *share = "moe_eval_capacity_token_fraction";
  if (in.find(policy) != nullptr && in.string(policy) != "all")
    in.fail(policy, "must be \"all\", found \"" + in.string(policy) + "\"");
  if (number(in, share, 1.0) < 1.0)
    in.fail(share,
            "is below 1: then a request's answer depends on its batch, which is not "
            "supported");
}

Extras read_extras(const ConfigReader& in) {
  check_routing(in);
  Extras out;
  out.experts = {.count = size_or(in, "num_experts", in.kMaxCount, 128),
                 .chosen = 2,
                 .scale = static_cast<float>(1.0 - number(in, "moe_token_dropout", 0.2)),
                 .scope = "ffn",
                 .fc1 = "fc1",
                 .fc2 = "fc2"};
  if (out.experts.count < 2) in.fail("num_experts", "must be at least 2");
  if (in.flag("router_bias", false)) out.experts.router_bias = Bias::kRequired;
  out.encoder_step = count_or(in, "encoder_sparse_step", 4);
  out.decoder_step = count_or(in, "decoder_sparse_step", 4);
  return out;
}

void add_experts(SideOptions& side, const ExpertsOptions& experts, int step) {
  LayerOptions::Names& names = side.layer.names;
  names.cross_attention = "cross_attention";
  names.cross_norm = "cross_attention_layer_norm";
  names.fc1 = "ffn.fc1";
  names.fc2 = "ffn.fc2";
  names.final_norm = "ff_layer_norm";
  side.of_layer = [experts, step](int i, LayerOptions& layer) {
    if (step > 0 && (i + 1) % step == 0) layer.experts = experts;
  };
}

std::unique_ptr<Model> make(const ModelConfig& c, const Weights& root, const Build& b) {
  const Positions table = Positions::fairseq_sinusoidal(b, c.max_position_embeddings, c.d_model,
                                                        padding_of(c.reader(), kPad));
  const auto positions = [&](const Weights& side) {
    // Old checkpoints carry the table, which follows from its size.
    (side / "embed_positions").find_any("weights");
    return table;
  };
  FairseqShape shape{.norms = NormPlace::kPre, .positions = positions};
  if (has_experts(c)) {
    const Extras extras = read_extras(c.reader());
    shape.encoder = [extras](SideOptions& side) {
      add_experts(side, extras.experts, extras.encoder_step);
    };
    shape.decoder = [extras](SideOptions& side) {
      add_experts(side, extras.experts, extras.decoder_step);
    };
  }
  return make_fairseq_model(c, root, b, shape);
}

constexpr EncoderDecoderDefaults kDefaults = [] {
  EncoderDecoderDefaults out = fairseq_defaults(128112);
  out.activation = "relu";
  out.scale_embedding = true;
  return out;
}();

void read_config(const ConfigReader& in, ModelConfig& out) {
  read_encoder_decoder(in, kDefaults, out);
  const int pad = padding_of(in, kPad);
  if (pad < 0 || pad >= out.vocab_size)
    in.fail("pad_token_id", "is " + std::to_string(pad) + ", which is not in the vocabulary");
  if (has_experts(out)) read_extras(in);  // what is wrong is said now
}

// Languages in the order of their ids: HuggingFace's, whatever the files list.
constexpr std::string_view kLanguages =
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl "
    "gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn "
    "mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn "
    "tr uk ur uz vi wo xh yi yo zh zu";
// With language_codes "wmt21".
constexpr std::string_view kWmt21Languages = "en ha is ja cs ru zh de";

std::vector<std::string> languages(const JsonView& config) {
  const auto codes = config.find("language_codes");
  const std::string name = codes ? codes->string() : "m2m100";
  if (name == "wmt21") return words_of(kWmt21Languages);
  if (name != "m2m100") codes->fail("is " + in_quotes(name) + ", expected \"m2m100\" or \"wmt21\"");
  return words_of(kLanguages);
}

TokenizerRule tokenizer() {
  TokenizerRule rule{"M2M100Tokenizer", "m2m_100", TokenizerRule::Kind::kSentencePiece};
  rule.sentencepiece.source = rule.sentencepiece.target = "sentencepiece.bpe.model";
  rule.languages = {"__", "__", "en", TokenizerRule::Languages::Target::kForcedBos, languages};
  rule.languages.only_own = true;
  rule.special_tokens = class_tokens({{"bos_token", "<s>"},
                                      {"eos_token", "</s>"},
                                      {"sep_token", "</s>"},
                                      {"unk_token", "<unk>"},
                                      {"pad_token", "<pad>"}});
  rule.outside_is_unknown = true;
  rule.single = {"$source", "$A", "eos_token"};
  rule.pair = {"$source", "$A", "$B", "eos_token"};
  return rule;
}

// In the order in which they are added.
constexpr std::string_view kNllbLanguages =
    "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi apc_Arab "
    "arb_Arab ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn azb_Arab azj_Latn "
    "bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva bjn_Arab bjn_Latn bod_Tibt "
    "bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn cjk_Latn ckb_Arab crh_Latn cym_Latn "
    "dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt ell_Grek eng_Latn epo_Latn est_Latn eus_Latn "
    "ewe_Latn fao_Latn pes_Arab fij_Latn fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn "
    "gle_Latn glg_Latn grn_Latn guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn "
    "hun_Latn hye_Armn ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn "
    "kac_Latn kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn "
    "kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn kor_Hang kmr_Latn lao_Laoo "
    "lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn lua_Latn lug_Latn "
    "luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn mkd_Cyrl plt_Latn mlt_Latn "
    "mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr nld_Latn nno_Latn nob_Latn npi_Deva "
    "nso_Latn nus_Latn nya_Latn oci_Latn gaz_Latn ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn "
    "por_Latn prs_Arab pbt_Arab quy_Latn ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng "
    "scn_Latn shn_Mymr sin_Sinh slk_Latn slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn "
    "spa_Latn als_Latn srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml "
    "tat_Cyrl tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn "
    "tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn urd_Arab "
    "uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn yue_Hant zho_Hans "
    "zho_Hant zul_Latn";

ModelLimits limits(const ModelConfig& c) {
  ModelLimits out = encoder_decoder_limits(c);
  out.position_padding = {padding_of(c.reader(), kPad), padding_of(c.reader(), kPad)};
  return out;
}

TokenizerRule nllb_tokenizer() {
  TokenizerRule rule{"NllbTokenizer", "nllb", TokenizerRule::Kind::kPieceBpe};
  rule.words = {TokenizerRule::WordOptions::Normalizer::kTableAndSpaces,
                /*split_whitespace=*/false};
  rule.words.without_table = TokenizerRule::WordOptions::WithoutTable::kNothing;
  // From pieces alone HuggingFace knows the languages that the files list, and numbers them behind
  // <mask>.
  rule.pieces = fairseq_pieces(nullptr);
  rule.extra_with_pieces = false;
  rule.extra_tokens = [](const JsonView&) { return words_of(kNllbLanguages); };
  rule.special_tokens = fairseq_tokens(/*mask_takes_space=*/true, /*mask_is_normalized=*/true);
  rule.languages.fallback = "eng_Latn";
  rule.languages.target = TokenizerRule::Languages::Target::kForcedBos;
  rule.single = {"$source", "$A", "eos_token"};
  rule.pair = {"$source", "$A", "$B", "eos_token"};
  rule.alternative = {
      "legacy_behaviour", {"$A", "eos_token", "$source"}, {"$A", "$B", "eos_token", "$source"}};
  return rule;
}

}  // namespace m2m100

ModelFamily m2m100_family() {
  using namespace m2m100;
  return {.model_type = "m2m_100",
          .architectures = {"M2M100ForConditionalGeneration", "M2M100Model"},
          .special_tokens = {.bos = 0, .pad = kPad, .eos = 2, .decoder_start = 2},
          .read_config = read_config,
          .limits = limits,
          .tokenizers = {tokenizer(), nllb_tokenizer()},
          .make = make};
}

ModelFamily nllb_moe_family() {
  using namespace m2m100;
  ModelFamily out = m2m100_family();
  out.model_type = "nllb-moe";
  out.architectures = {"NllbMoeForConditionalGeneration", "NllbMoeModel"};
  out.tokenizers = {};
  return out;
}

}  // namespace tandem
