// Sides that are models by themselves: what config.json says of them, and what is refused.
#include "models/sides/sides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "models/sides/composite_model.h"

namespace tandem {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

ConfigReader reader(const json& side) { return {"config.json: side", side}; }

EncoderSide encoder(const json& side) {
  return read_encoder_side(reader(side), {"bert", "roberta"});
}
DecoderSide decoder(const json& side) {
  return read_decoder_side(reader(side), {"bert", "roberta", "gpt2", "trocr"});
}

json decoder_of(const char* type, const json& more = {}) {
  json out = {{"model_type", type}, {"is_decoder", true}, {"add_cross_attention", true}};
  out.update(more.is_null() ? json::object() : more);
  return out;
}

std::string side_error(const std::function<void()>& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return {};
}

TEST(Sides, DefaultsOfTheirClasses) {
  const EncoderSide bert = encoder(json::object());  // the first type that the family takes
  EXPECT_EQ(bert.vocab_size, 30522);
  EXPECT_EQ(bert.positions, 512);
  EXPECT_FALSE(bert.position_padding.has_value());
  const EncoderSide roberta = encoder({{"model_type", "roberta"}});
  EXPECT_EQ(roberta.vocab_size, 50265);
  EXPECT_EQ(roberta.positions, 510);
  EXPECT_EQ(roberta.position_padding, 1);
  const DecoderSide gpt2 = decoder(decoder_of("gpt2", {{"n_embd", 24}, {"n_head", 3}}));
  EXPECT_EQ(gpt2.ffn_dim, 96);
  EXPECT_EQ(gpt2.positions, 1024);
  EXPECT_EQ(gpt2.activation, Activation::kGeluTanh);
}

TEST(Sides, RobertasPositionsBeginBehindItsPadding) {
  const json config = decoder_of("roberta", {{"pad_token_id", 7}, {"max_position_embeddings", 20}});
  EXPECT_EQ(decoder(config).positions, 12);
  EXPECT_EQ(decoder(config).position_padding, 7);
  for (const json& pad : {json(nullptr), json(-1), json("a"), json(19)}) {
    json wrong = config;
    wrong["pad_token_id"] = pad;
    EXPECT_THAT(side_error([&] { decoder(wrong); }), HasSubstr("pad_token_id")) << pad;
  }
}

TEST(Sides, ScoresOfEachLayer) {
  const json sizes = {{"n_embd", 32}, {"n_head", 2}, {"scale_attn_by_inverse_layer_idx", true}};
  const DecoderSide side = decoder(decoder_of("gpt2", sizes));
  LayerOptions third = side.options.layer;
  side.options.of_layer(2, third);
  EXPECT_FLOAT_EQ(third.self_attention.scale, 0.25f / 3);
  EXPECT_FLOAT_EQ(third.cross_attention.scale, 0.25f / 3);
  const DecoderSide plain = decoder(decoder_of("gpt2", {{"scale_attn_weights", false}}));
  EXPECT_EQ(plain.options.layer.self_attention.scale, 1.0f);
}

TEST(Sides, RefusesByName) {
  const auto refused = [](const json& side, const char* key) {
    EXPECT_THAT(side_error([&] { decoder(side); }), AllOf(HasSubstr("side"), HasSubstr(key)))
        << side;
  };
  for (const char* type : {"bert", "roberta"})
    refused(decoder_of(type, {{"is_decoder", false}}), "is_decoder");
  for (const char* type : {"bert", "roberta", "gpt2"}) {
    refused(decoder_of(type, {{"add_cross_attention", false}}), "add_cross_attention");
    refused(decoder_of(type, {{"cross_attention_hidden_size", 99}}), "cross_attention_hidden_size");
    refused(decoder_of(type, {{"hidden_size", 24}, {"num_attention_heads", 5}}), "does not divide");
  }
  refused({{"model_type", "xlnet"}}, "model_type");
  EXPECT_THAT(side_error([] { encoder({{"is_decoder", true}}); }), HasSubstr("is_decoder"));
  EXPECT_THAT(side_error([] {
                encoder({{"model_type", "gpt2"}});
              }),
              AllOf(HasSubstr("model_type"), HasSubstr("bert, roberta")));
}

TEST(Sides, TheWidthOfTheEncodersStates) {
  const json config = decoder_of("trocr", {{"cross_attention_hidden_size", 24}});
  const DecoderSide side = decoder(config);
  EXPECT_EQ(side.states_width, 24);
  SideSizes encoder;
  encoder.d_model = 24;
  check_sides(reader(config), encoder, side);
  encoder.d_model = 32;
  EXPECT_THAT(side_error([&] { check_sides(reader(config), encoder, side); }),
              AllOf(HasSubstr("cross_attention_hidden_size"), HasSubstr("32")));
}

}  // namespace
}  // namespace tandem
