// Languages by name: which tokens are languages, what is said of names that are none, and what the
// tokenizers of the families have.
#include "text/languages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "models/family.h"
#include "tests/support/files/expect_error.h"

namespace tandem {
namespace {

using Rule = TokenizerRule::Languages;
using Target = Rule::Target;
using ::testing::ElementsAre;

std::unique_ptr<Tokenizer> tokenizer_of(const std::string& golden) {
  return load_tokenizer(std::filesystem::path(TANDEM_SOURCE_DIR) / "tests/data/goldens" / golden);
}

LanguageSet set_of(const std::vector<std::string>& names) {
  std::map<std::string, int32_t> tokens;
  for (const std::string& name : names) tokens[name] = static_cast<int32_t>(tokens.size()) + 7;
  return LanguageSet({"", "", "eng_Latn", Target::kForcedBos}, tokens, true, "eng_Latn");
}

const LanguageSet& nllb() {
  static const LanguageSet set =
      set_of({"eng_Latn", "fra_Latn", "fur_Latn", "spa_Latn", "est_Latn", "zho_Hans", "zho_Hant",
              "jpn_Jpan", "jav_Latn", "deu_Latn", "ron_Latn", "por_Latn", "rus_Cyrl"});
  return set;
}

TEST(Languages, TokensByTheirShape) {
  const Rule plain{"", "", "", Target::kNone}, marked{"__", "__", "", Target::kNone},
      codes{">>", "<<", "", Target::kNone};
  for (const char* token : {"en_XX", "eng_Latn", "fra_Latn", "zh_CN", "zho_Hans"})
    EXPECT_TRUE(has_shape_of_language(plain, token)) << token;
  for (const char* token : {"", "<s>", "<mask>", "en", "en_", "_XX", "en_xx", "e_XX", "engl_Latn",
                            "EN_XX", "eng_latn", "eng_LatnX", "en_XXX", "en-XX"})
    EXPECT_FALSE(has_shape_of_language(plain, token)) << token;
  for (const char* token : {"__en__", "__java__", "__en_XX__", "__ceb__"})
    EXPECT_TRUE(has_shape_of_language(marked, token)) << token;
  for (const char* token : {"____", "__", "__en", "en__", "_en_", "__e n__", "madeupword0"})
    EXPECT_FALSE(has_shape_of_language(marked, token)) << token;
  EXPECT_TRUE(has_shape_of_language(codes, ">>fra<<"));
  EXPECT_TRUE(has_shape_of_language(codes, ">>cmn_Hans<<"));
  EXPECT_FALSE(has_shape_of_language(codes, ">><<"));
}

TEST(Languages, WhatAnotherSpellingMeans) {
  const std::pair<const char*, const char*> cases[] = {
      {"EN", "eng_Latn"},       {"en-US", "eng_Latn"},    {"de", "deu_Latn"},
      {"deu", "deu_Latn"},      {"es", "spa_Latn"},       {"FR", "fra_Latn"},
      {"zho_hant", "zho_Hant"}, {"eng_Latn", "eng_Latn"}, {"PT-BR", "por_Latn"},
      {"ENG_LATN", "eng_Latn"}, {"eng-latn", "eng_Latn"}, {"ger", "deu_Latn"},
      {"de_AT", "deu_Latn"},    {"en-GB", "eng_Latn"},    {"jw", "jav_Latn"},
      {"et", "est_Latn"},       {"ru-RU", "rus_Cyrl"},    {"mo", "ron_Latn"}};
  for (const auto& [name, meant] : cases) EXPECT_EQ(nllb().meant(name), meant) << name;
  for (const char* name : {"xx", "", "f", "__fra__", "de_Cyrl", "en-US-posix", "q", "klingon",
                           "english english", "german "})
    EXPECT_EQ(nllb().meant(name), std::nullopt) << name;
  EXPECT_EQ(nllb().meant(std::string(1000, 'e')), std::nullopt);
  EXPECT_EQ(set_of({"en_XX", "zh_CN"}).meant("ZH"), "zh_CN");
  EXPECT_EQ(LanguageSet().meant("en"), std::nullopt);
}

TEST(Languages, ByTheirEnglishNames) {
  const std::pair<const char*, const char*> cases[] = {{"english", "eng_Latn"},
                                                       {"German", "deu_Latn"},
                                                       {"CASTILIAN", "spa_Latn"},
                                                       {"estonian", "est_Latn"},
                                                       {"Friulian", "fur_Latn"},
                                                       {"chinese", "zho_Hans"},
                                                       {"javanese", "jav_Latn"},
                                                       {"Moldovan", "ron_Latn"},
                                                       {"Traditional Chinese", "zho_Hant"},
                                                       {"Chinese (Simplified)", "zho_Hans"},
                                                       {"brazilian portuguese", "por_Latn"}};
  for (const auto& [name, meant] : cases) {
    EXPECT_EQ(nllb().meant(name), meant) << name;
    EXPECT_EQ(nllb().id_of(name, "tgt_lang"), nllb().id_of(meant, "tgt_lang"));
  }
}

// As DeepL and browsers name them.
TEST(Languages, ScriptsAndCountries) {
  for (const char* name : {"zh", "ZH", "zh-Hans", "ZH-HANS", "zh-CN", "zh_SG", "cmn", "zho"})
    EXPECT_EQ(nllb().meant(name), "zho_Hans") << name;
  for (const char* name : {"zh-Hant", "ZH-HANT", "zh-TW", "zh-HK", "zh-Hant-TW"})
    EXPECT_EQ(nllb().meant(name), "zho_Hant") << name;
  const LanguageSet one = set_of({"zh", "no", "sr", "tl", "en"});
  EXPECT_EQ(one.meant("ZH-HANS"), "zh");
  EXPECT_EQ(one.meant("cmn_Hans"), "zh");
  EXPECT_EQ(one.meant("zh-TW"), std::nullopt);  // in other characters
  EXPECT_EQ(one.meant("sr_Latn"), std::nullopt);
  EXPECT_EQ(one.meant("srp_Cyrl"), "sr");
  EXPECT_EQ(one.meant("NB"), "no");
  EXPECT_EQ(one.meant("nn"), std::nullopt);
  EXPECT_EQ(one.meant("fil"), "tl");
  EXPECT_EQ(set_of({"nob_Latn", "nno_Latn"}).meant("no"), "nob_Latn");
  EXPECT_EQ(set_of({"nob_Latn", "nno_Latn"}).meant("nn"), "nno_Latn");
  const LanguageSet portuguese = set_of({"pt_PT", "pt_BR", "en_XX", "en_GB"});
  EXPECT_EQ(portuguese.meant("pt-br"), "pt_BR");
  EXPECT_EQ(portuguese.meant("PT"), std::nullopt);
  EXPECT_EQ(portuguese.meant("EN-GB"), "en_GB");
  EXPECT_EQ(portuguese.meant("EN-US"), "en_XX");
  EXPECT_EQ(portuguese.meant("english"), "en_XX");
  EXPECT_EQ(set_of({"pes_Arab", "prs_Arab"}).meant("fa"), "pes_Arab");
  EXPECT_EQ(set_of({"pes_Arab", "prs_Arab"}).meant("dari"), "prs_Arab");
  EXPECT_EQ(set_of({"kas_Arab", "kas_Deva"}).meant("ks-Deva"), "kas_Deva");
  EXPECT_EQ(set_of({"java", "python", "en_XX"}).meant("jv"), std::nullopt);
}

TEST(Languages, ANameAndItsToken) {
  const LanguageSet set({"__", "__", "en", Target::kForcedBos}, {{"__en__", 5}, {"__fr__", 6}},
                        true, "__en__");
  EXPECT_THAT(set.names(), ElementsAre("en", "fr"));
  EXPECT_EQ(set.id_of("fr", "tgt_lang"), 6);
  EXPECT_EQ(set.id_of("__fr__", "tgt_lang"), 6);
  EXPECT_EQ(set.default_source(), "en");
  EXPECT_TRUE(set.is_language(5));
  EXPECT_FALSE(set.is_language(7));
}

TEST(Languages, UnknownNamesShowTheNearest) {
  EXPECT_INPUT_ERROR(nllb().id_of("en_Cyrl", "src_lang"), "src_lang", "\"en_Cyrl\"",
                     "did you mean eng_Latn?");
  EXPECT_INPUT_ERROR(nllb().id_of("fra_Latm", "tgt_lang"), "tgt_lang", "did you mean fra_Latn?");
  EXPECT_EQ(nllb().id_of("fr", "tgt_lang"), nllb().id_of("fra_Latn", "tgt_lang"));
  EXPECT_THAT(nllb().nearest("es"), ElementsAre("spa_Latn"));  // not est_Latn
  EXPECT_THAT(nllb().nearest("ja_XX"), ElementsAre("jpn_Jpan"));
  EXPECT_THAT(nllb().nearest("zh"), ElementsAre("zho_Hans", "zho_Hant"));
  EXPECT_THAT(nllb().nearest("English"), ElementsAre("eng_Latn"));
  EXPECT_THAT(nllb().nearest("eng_Latm"), ElementsAre("eng_Latn"));
  EXPECT_THAT(nllb().nearest("zho_Hent"), ElementsAre("zho_Hant", "zho_Hans"));
  const LanguageSet mbart = set_of({"en_XX", "fr_XX", "de_DE", "ja_XX", "pt_XX"});
  EXPECT_THAT(mbart.nearest("en"), ElementsAre("en_XX"));
  EXPECT_THAT(mbart.nearest("fra_Latn"), ElementsAre("fr_XX"));
  EXPECT_THAT(mbart.nearest("por_Latn"), ElementsAre("pt_XX"));  // of the same language
  EXPECT_THAT(mbart.nearest("french"), ElementsAre("fr_XX"));
}

TEST(Languages, UnknownNamesWithoutANearOne) {
  EXPECT_INPUT_ERROR(nllb().id_of("qqqqqqqqq", "tgt_lang"), "tgt_lang: \"qqqqqqqqq\"",
                     "it has 13, which tandem inspect and a server's GET /languages list");
  const LanguageSet few(Rule{"", "", "", Target::kForcedBos}, {{"en_XX", 1}, {"fr_XX", 2}}, true,
                        "");
  EXPECT_INPUT_ERROR(few.id_of("qqqqqqqqq", "tgt_lang"), "which has en_XX or fr_XX");
  EXPECT_INPUT_ERROR(few.id_of(std::string(100000, 'x'), "tgt_lang"), "100000 characters");
  EXPECT_INPUT_ERROR(LanguageSet().id_of("en_XX", "src_lang"), "src_lang: ", "no languages");
}

TEST(Languages, OfGoldens) {
  const auto mbart50 = tokenizer_of("mbart50-tiny");
  const LanguageSet& many = mbart50->languages();
  EXPECT_EQ(many.names().size(), 52u);
  EXPECT_EQ(many.target(), Target::kForcedBos);
  EXPECT_EQ(many.default_source(), "en_XX");
  EXPECT_TRUE(many.has_source());
  EXPECT_EQ(many.id_of("de_DE", "tgt_lang"), *mbart50->token_to_id("de_DE"));
  EXPECT_TRUE(mbart50->is_special(many.id_of("de_DE", "tgt_lang")));

  const auto plbart = tokenizer_of("plbart-tiny");
  EXPECT_THAT(plbart->languages().names(), ElementsAre("en_XX", "java", "python"));
  EXPECT_EQ(plbart->languages().target(), Target::kDecoderStart);
  EXPECT_EQ(plbart->languages().default_source(), "python");

  const auto marian = tokenizer_of("marian-tiny");
  EXPECT_THAT(marian->languages().names(), ElementsAre("deu", "fra", "ron"));
  EXPECT_EQ(marian->languages().target(), Target::kSourcePrefix);
  EXPECT_FALSE(marian->languages().has_source());
  EXPECT_INPUT_ERROR(marian->encode_from("fra", "text"), "src_lang", "tgt_lang");
  for (const char* name : {"bart-tiny", "t5-tiny", "blenderbot-tiny"}) {
    const auto tokenizer = tokenizer_of(name);
    EXPECT_TRUE(tokenizer->languages().empty()) << name;
    EXPECT_INPUT_ERROR(tokenizer->encode_from("en_XX", "text"), "src_lang", "no languages");
  }
}

TEST(Languages, RulesOfTheFamilies) {
  const std::map<std::string, Target> expected = {
      {"MBartTokenizer", Target::kDecoderStart},       {"MBart50Tokenizer", Target::kForcedBos},
      {"M2M100Tokenizer", Target::kForcedBos},         {"NllbTokenizer", Target::kForcedBos},
      {"PLBartTokenizer", Target::kDecoderStart},      {"MarianTokenizer", Target::kSourcePrefix},
      {"SeamlessM4TTokenizer", Target::kDecoderPrompt}};
  std::set<std::string> found;  // several models share a class
  for (const TokenizerRule& rule : tokenizer_rules()) {
    const auto it = expected.find(rule.class_name);
    EXPECT_EQ(rule.languages.target, it == expected.end() ? Target::kNone : it->second)
        << rule.class_name;
    if (it != expected.end()) found.insert(it->first);
  }
  EXPECT_EQ(found.size(), expected.size());
}

}  // namespace
}  // namespace tandem
