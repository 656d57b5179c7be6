// What becomes of src_lang, tgt_lang and task: against HuggingFace's ids on the checkpoints that
// have languages, and errors.
#include "runtime/request/params/language_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/request/request_json.h"
#include "runtime/request/request_processor.h"
#include "tests/support/files/expect_error.h"
#include "tests/support/goldens/goldens.h"

namespace tandem {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;
using ::testing::ElementsAre;
using testing::golden_dir;

class Requests {
 public:
  explicit Requests(const std::string& checkpoint) : processor_(golden_dir(checkpoint), 1) {}

  PreparedRequest prepare(const json& prompt, const json& params) {
    return processor_.prepare(read_prompt(prompt), read_options(params));
  }
  Ids encoder(const json& prompt, const json& params) {
    const auto request = prepare(prompt, params);
    const auto& ids = request.inputs.encoder_prompt_token_ids();
    return {ids.begin(), ids.end()};
  }
  Ids decoder(const json& prompt, const json& params) {
    const auto request = prepare(prompt, params);
    const auto& ids = request.inputs.prompt_token_ids();
    return {ids.begin(), ids.end()};
  }
  int32_t id(const std::string& token) { return *processor_.tokenizer().token_to_id(token); }
  const Tokenizer& tokenizer() const { return processor_.tokenizer(); }

 private:
  RequestProcessor processor_;
};

TEST(Languages, ByNameAsInTheGoldens) {
  Requests model("mbart50-tiny");
  size_t cases = 0;
  const json golden = testing::load_golden("mbart50-tiny");
  for (const json& c : golden.at("cases")) {
    if (c.at("kind") != "lang") continue;
    ++cases;
    const auto request = model.prepare(
        c.at("text"), {{"src_lang", c.at("src_lang")}, {"tgt_lang", c.at("tgt_lang")}});
    const auto& encoder = request.inputs.encoder_prompt_token_ids();
    EXPECT_EQ(Ids(encoder.begin(), encoder.end()), c.at("encoder_ids").get<Ids>());
    EXPECT_EQ(request.params.forced_bos_token_id(),
              c.at("generation").at("forced_bos_token_id").get<int>());
  }
  EXPECT_GE(cases, 4u);
}

TEST(Languages, WithoutANameNothingChanges) {
  Requests model("mbart50-tiny");
  const auto request = model.prepare("text", json::object());
  EXPECT_FALSE(request.params.has_forced_bos_token_id());
  EXPECT_EQ(request.inputs.encoder_prompt_token_ids(0), model.id("en_XX"));
}

TEST(Languages, ATranslationNeedsATargetThatNothingForces) {
  const auto needs = [](const char* checkpoint, const char* setting = nullptr,
                        const char* token = nullptr) {
    const RequestProcessor processor(golden_dir(checkpoint), 1);
    ModelConfig config = processor.model_config();
    if (setting != nullptr) config.generation[setting] = *processor.tokenizer().token_to_id(token);
    return needs_target_language(config, processor.tokenizer().languages());
  };
  EXPECT_TRUE(needs("mbart50-tiny"));
  EXPECT_FALSE(needs("mbart50-tiny", "forced_bos_token_id", "de_DE"));
  EXPECT_FALSE(needs("mbart50-tiny", "decoder_start_token_id", "de_DE"));
  EXPECT_TRUE(needs("mbart50-tiny", "forced_bos_token_id", "</s>"));
  EXPECT_FALSE(needs("marian-tiny"));
  EXPECT_FALSE(needs("t5-tiny"));
}

TEST(Languages, BothSpellings) {
  Requests model("mbart50-tiny");
  const Ids french = model.encoder("text", {{"src_lang", "fr_XX"}});
  EXPECT_EQ(french[0], model.id("fr_XX"));
  EXPECT_EQ(model.encoder("text", {{"source_lang", "fr_XX"}}), french);
  EXPECT_EQ(model.encoder("text", {{"source_lang", "fr_XX"}, {"src_lang", "fr_XX"}}), french);
  EXPECT_EQ(model.encoder("text", {{"source_lang", nullptr}, {"src_lang", "fr_XX"}}), french);
  EXPECT_INPUT_ERROR(read_options({{"source_lang", "fr_XX"}, {"src_lang", "de_DE"}}), "src_lang",
                     "fr_XX", "de_DE", "contradict");
  EXPECT_INPUT_ERROR(read_options({{"target_lang", "fr_XX"}, {"tgt_lang", "de_DE"}}), "tgt_lang");
  for (const char* name : {"src_lang", "tgt_lang", "source_lang", "target_lang", "task"}) {
    EXPECT_INPUT_ERROR(read_options({{name, 5}}), name, "must be a string");
    EXPECT_INPUT_ERROR(read_options({{name, ""}}), name, "empty");
    EXPECT_INPUT_ERROR(read_options({{name, std::string(257, 'x')}}), name, "256 bytes");
  }
}

TEST(Languages, ALineComesBeforeTheFlags) {
  const json flags = {{"source_lang", "en_XX"}, {"target_lang", "fr_XX"}};
  const auto options = [&](const json& params) {
    return request_from_json({{"prompt", "x"}, {"params", params}}, flags).options;
  };
  EXPECT_EQ(options({{"src_lang", "de_DE"}}).src_lang(), "de_DE");
  EXPECT_EQ(options({{"src_lang", "de_DE"}}).tgt_lang(), "fr_XX");
  EXPECT_EQ(options({{"target_lang", "de_DE"}}).tgt_lang(), "de_DE");
  EXPECT_FALSE(options({{"src_lang", nullptr}}).has_src_lang());
}

TEST(Languages, ATargetThatIsForced) {
  Requests model("mbart50-tiny");
  const auto forced = [&](const json& params) {
    return model.prepare("text", params).params.forced_bos_token_id();
  };
  EXPECT_EQ(forced({{"tgt_lang", "de_DE"}}), model.id("de_DE"));
  EXPECT_EQ(forced({{"tgt_lang", "de_DE"}, {"forced_bos_token_id", model.id("de_DE")}}),
            model.id("de_DE"));
  EXPECT_INPUT_ERROR(forced({{"tgt_lang", "de_DE"}, {"forced_bos_token_id", 5}}), "tgt_lang",
                     "forced_bos_token_id is 5");
  EXPECT_INPUT_ERROR(forced({{"tgt_lang", "de_DE"}, {"forced_bos_token_id", nullptr}}), "tgt_lang",
                     "null");
  for (const char* name : {"de", "DE", "deu_Latn", "German", "de-AT"})
    EXPECT_EQ(forced({{"tgt_lang", name}}), model.id("de_DE")) << name;
  EXPECT_INPUT_ERROR(forced({{"tgt_lang", "de_Cyrl"}}), "tgt_lang", "did you mean de_DE?");
  // Of token ids the source's language is known, the target's is not.
  const auto ids = model.prepare({{"prompt_token_ids", {5, 6}}}, {{"tgt_lang", "de_DE"}});
  EXPECT_EQ(ids.params.forced_bos_token_id(), model.id("de_DE"));
  EXPECT_INPUT_ERROR(model.prepare({{"prompt_token_ids", {5, 6}}}, {{"src_lang", "de_DE"}}),
                     "src_lang", "token ids");
}

TEST(Languages, ATargetThatTheDecoderStartsWith) {
  Requests model("plbart-tiny");
  EXPECT_THAT(model.decoder("x", json::object()), ElementsAre(model.id("__en_XX__")));
  EXPECT_THAT(model.decoder("x", {{"tgt_lang", "en_XX"}}), ElementsAre(model.id("__en_XX__")));
  EXPECT_THAT(model.decoder("x", {{"tgt_lang", "java"}}), ElementsAre(model.id("__java__")));
  EXPECT_EQ(model.encoder("x", {{"src_lang", "java"}}).back(), model.id("__java__"));
  EXPECT_INPUT_ERROR(model.decoder("x", {{"tgt_lang", "java"}, {"decoder_start_token_id", 2}}),
                     "tgt_lang", "decoder_start_token_id is 2");
}

TEST(Languages, SettingsThatForceALanguageForceTheOneAskedFor) {
  const LanguageSet languages({"", "", "", LanguageSet::Rule::Target::kDecoderStart},
                              {{"en_XX", 20}, {"ro_RO", 21}}, true, "en_XX");
  ModelConfig config;
  config.vocab_size = 30;
  config.decoder_start_token_id = 2;
  const auto with = [&](const json& generation, const json& params, const json& prompt = "x") {
    config.generation = generation;
    return with_target_language(read_prompt(prompt), read_options(params), languages,
                                ParamsResolver(config, 30));
  };
  auto options = with({{"forced_bos_token_id", 21}}, {{"tgt_lang", "en_XX"}});
  EXPECT_EQ(options.forced_bos_token_id(), 20);
  EXPECT_FALSE(options.has_decoder_start_token_id());
  options = with({{"forced_bos_token_id", 0}}, {{"tgt_lang", "en_XX"}});
  EXPECT_EQ(options.decoder_start_token_id(), 20);
  EXPECT_FALSE(options.has_forced_bos_token_id());
  options = with(json::object(), {{"tgt_lang", "en_XX"}, {"forced_bos_token_id", 20}});
  EXPECT_FALSE(options.has_decoder_start_token_id()) << "the request says where";
  options = with({{"forced_bos_token_id", 21}},
                 {{"tgt_lang", "en_XX"}, {"forced_bos_token_id", nullptr}});
  EXPECT_EQ(options.decoder_start_token_id(), 20);
}

TEST(Languages, ATargetThatTheSourceBeginsWith) {
  Requests model("marian-tiny");
  const Ids plain = model.encoder("a text", json::object());
  Ids french = plain;
  french.insert(french.begin(), model.id(">>fra<<"));
  EXPECT_EQ(model.encoder("a text", {{"tgt_lang", "fra"}}), french);
  EXPECT_EQ(model.encoder("a text", {{"tgt_lang", ">>fra<<"}}), french);
  EXPECT_EQ(model.encoder(">>fra<< a text", json::object()), french) << "as HuggingFace's users do";
  EXPECT_EQ(model.encoder(">>fra<< a text", {{"tgt_lang", "fra"}}), french);
  EXPECT_EQ(model.encoder({{"prompt_token_ids", plain}}, {{"tgt_lang", "fra"}}), french);
  EXPECT_INPUT_ERROR(model.encoder(">>deu<< a text", {{"tgt_lang", "fra"}}), "tgt_lang", "fra");
  // Its source is its own, and may be named.
  EXPECT_EQ(model.encoder("a text", {{"src_lang", "English"}, {"tgt_lang", "fra"}}), french);
  EXPECT_INPUT_ERROR(model.encoder("a text", {{"src_lang", "fra"}}), "src_lang", "from en");
  EXPECT_EQ(model.encoder("a text", {{"tgt_lang", "fr"}}), french);
  EXPECT_EQ(model.encoder("a text", {{"tgt_lang", "French"}}), french);
  EXPECT_INPUT_ERROR(model.encoder("a text", {{"tgt_lang", "frq"}}), "did you mean fra?");
}

TEST(Languages, AScoredTargetIsInItsLanguage) {
  Requests forced("mbart50-tiny");
  const json prompt = {{"encoder_prompt", "a text"}, {"target", "ein Text"}};
  // HuggingFace's labels: the language, the text, the end; behind the decoder's first token.
  Ids wanted = forced.tokenizer().encode_from("de_DE", "ein Text");
  wanted.insert(wanted.begin(), 2);
  wanted.pop_back();  // is not fed
  EXPECT_EQ(forced.decoder(prompt, {{"tgt_lang", "de_DE"}}), wanted);
  EXPECT_EQ(wanted[1], forced.id("de_DE"));

  Requests starts("plbart-tiny");
  wanted = starts.tokenizer().encode("ein Text", false);
  wanted.insert(wanted.begin(), starts.id("__java__"));
  EXPECT_EQ(starts.decoder(prompt, {{"tgt_lang", "java"}}), wanted);
}

TEST(Languages, OfAModelOfOnePairMayBeNamed) {
  const OwnLanguages pair{.source = "en", .target = "de"};
  const auto without = [](const OwnLanguages& own, const json& params) {
    return own.without(read_options(params));
  };
  for (const auto& [source, target] :
       {std::pair("en", "de"), {"English", "german"}, {"EN-US", "DE"}}) {
    const auto options = without(pair, {{"src_lang", source}, {"tgt_lang", target}, {"n", 2}});
    EXPECT_FALSE(options.has_src_lang() || options.has_tgt_lang()) << source;
    EXPECT_EQ(options.n(), 2);
  }
  EXPECT_INPUT_ERROR(without(pair, {{"src_lang", "fr"}}), "src_lang", "translates from en");
  EXPECT_INPUT_ERROR(without(pair, {{"tgt_lang", "fr"}}), "tgt_lang", "translates to de");
  EXPECT_INPUT_ERROR(without(pair, {{"tgt_lang", "klingon"}}), "tgt_lang", "translates to de");
  const OwnLanguages any{"", "en", true};  // opus-mt-mul-en
  EXPECT_FALSE(without(any, {{"src_lang", "sw"}}).has_src_lang());
  EXPECT_TRUE(without(OwnLanguages{}, {{"src_lang", "sw"}}).has_src_lang());
}

TEST(Languages, AModelWithoutThem) {
  Requests model("bart-tiny");
  for (const char* name : {"src_lang", "tgt_lang"})
    EXPECT_INPUT_ERROR(model.prepare("text", {{name, "en_XX"}}), name, "no languages");
}

TEST(Tasks, PrefixAndParametersBelowTheRequestS) {
  Requests model("t5-tiny");
  const json task = {{"task", "summarization"}};
  EXPECT_EQ(model.encoder("a text", task), model.encoder("summarize: a text", json::object()));
  const auto plain = model.prepare("a text", json::object()).params;
  const auto params = model.prepare("a text", task).params;
  EXPECT_EQ(params.num_beams(), 4);
  EXPECT_EQ(params.no_repeat_ngram_size(), 3);
  EXPECT_EQ(params.length_penalty(), 2.0);
  EXPECT_EQ(params.early_stopping(), proto::SamplingParams::EARLY_STOPPING_TRUE);
  EXPECT_EQ(params.max_tokens(), 199);
  EXPECT_EQ(params.min_tokens(), 29);
  EXPECT_EQ(plain.num_beams(), 1);
  const auto over = model.prepare("a text", {{"task", "summarization"},
                                             {"num_beams", 1},
                                             {"max_tokens", 5},
                                             {"no_repeat_ngram_size", nullptr}});
  EXPECT_EQ(over.params.num_beams(), 1);
  EXPECT_EQ(over.params.max_tokens(), 5);
  EXPECT_EQ(over.params.no_repeat_ngram_size(), 0);
  // Ids are taken as they are.
  EXPECT_THAT(model.encoder({{"prompt_token_ids", {5, 6}}}, task), ElementsAre(5, 6));
}

TEST(Tasks, UnknownOnesAndModelsWithoutAny) {
  Requests t5("t5-tiny");
  EXPECT_INPUT_ERROR(t5.prepare("a", {{"task", "translate"}}), "task: \"translate\"",
                     "summarization");
  Requests bart("bart-tiny");
  EXPECT_INPUT_ERROR(bart.prepare("a", {{"task", "summarization"}}), "task: ", "no tasks");
}

TEST(Tasks, WrongOnesFailThoseWhoAsk) {
  ModelConfig config;
  config.vocab_size = 30;
  config.generation = {{"num_beams", 3}};
  config.raw = {{"task_specific_params",
                 {{"good", {{"max_length", 7}}},
                  {"bad", {{"num_beams", "many"}}},
                  {"unbuilt", {{"num_beam_groups", 4}}},
                  {"none", 5}}}};
  const ParamsResolver resolver(config, 30);
  EXPECT_EQ(resolver.resolve({}, {1, false}).num_beams(), 3);
  const auto good = resolver.resolve(read_options({{"task", "good"}}), {1, false});
  EXPECT_EQ(good.max_tokens(), 6);
  EXPECT_EQ(good.num_beams(), 3) << "what the task does not say the model does";
  EXPECT_INPUT_ERROR(resolver.resolve(read_options({{"task", "bad"}}), {1, false}), "config.json",
                     "task_specific_params.bad", "num_beams");
  EXPECT_INPUT_ERROR(resolver.resolve(read_options({{"task", "unbuilt"}}), {1, false}),
                     "num_beam_groups");
  EXPECT_INPUT_ERROR(resolver.resolve(read_options({{"task", "none"}}), {1, false}), "task",
                     "bad, good, unbuilt");
}

}  // namespace
}  // namespace tandem
