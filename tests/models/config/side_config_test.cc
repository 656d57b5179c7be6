// Sides with an object of their own in config.json.
#include "models/config/side_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tandem {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr SideDefaults kAlike{100, 64, 2, 1e4f, 0.0f, 50.0f, 30.0f};
constexpr SideDefaults kTwoThetas{100, 64, 3, 1e6f, 1e4f, 0.0f, 0.0f};

SideConfig read(const json& side, const SideDefaults& defaults = kAlike) {
  return read_side(ConfigReader("config.json: decoder", side), defaults);
}

std::string error_of(const json& side) {
  try {
    read(side);
  } catch (const InputError& e) {
    return e.what();
  }
  return {};
}

TEST(SideConfig, DefaultsOfWhatIsNotThere) {
  const SideConfig side = read({{"num_hidden_layers", 5}});
  EXPECT_EQ(side.vocab_size, 100);
  EXPECT_EQ(side.max_positions, 64);
  EXPECT_EQ(side.heads, 8);
  EXPECT_EQ(side.kv_heads, 4);
  EXPECT_THAT(side.sliding, ElementsAre(true, false, true, false, true));
  EXPECT_EQ(side.rope.theta, 1e4f);
  EXPECT_EQ(side.sliding_rope.theta, 1e4f);
  EXPECT_EQ(side.attention_soft_cap, 50.0f);
  EXPECT_EQ(side.score_scale, 1.0f / 16);
  EXPECT_EQ(side.activation, Activation::kGeluTanh);
  EXPECT_FALSE(side.attention_bias);
}

TEST(SideConfig, NullIsNoCap) {
  const SideConfig side =
      read({{"attn_logit_softcapping", nullptr}, {"final_logit_softcapping", 12.5}});
  EXPECT_EQ(side.attention_soft_cap, 0.0f);
  EXPECT_EQ(side.logit_soft_cap, 12.5f);
}

TEST(SideConfig, RotaryPositionsInAllTheirForms) {
  const json each = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}}},
                     {"sliding_attention", {{"rope_theta", 5e3}}}};
  const SideConfig both = read({{"rope_parameters", each}}, kTwoThetas);
  EXPECT_EQ(both.rope.theta, 1e6f);
  EXPECT_EQ(both.rope.factor, 8.0f);
  EXPECT_EQ(both.sliding_rope.theta, 5e3f);
  EXPECT_EQ(both.sliding_rope.factor, 1.0f);

  const json old = {{"rope_theta", 7e5},
                    {"rope_local_base_freq", 2e3},
                    {"rope_scaling", {{"type", "linear"}, {"factor", 4.0}}}};
  const SideConfig older = read(old, kTwoThetas);
  EXPECT_EQ(older.rope.theta, 7e5f);
  EXPECT_EQ(older.rope.factor, 4.0f);
  EXPECT_EQ(older.sliding_rope.theta, 2e3f);
  EXPECT_EQ(older.sliding_rope.factor, 1.0f);

  const SideConfig alike =
      read({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 3e3}}}});
  EXPECT_EQ(alike.rope.theta, 3e3f);
  EXPECT_EQ(alike.sliding_rope.theta, 3e3f);
}

TEST(SideConfig, WhatCannotBeNamesFileAndKey) {
  EXPECT_THAT(error_of({{"num_attention_heads", 6}}),
              HasSubstr("config.json: decoder: num_key_value_heads: is 4, which does not divide"));
  EXPECT_THAT(error_of({{"head_dim", 7}}), HasSubstr("head_dim: is 7, expected an even number"));
  EXPECT_THAT(error_of({{"num_hidden_layers", 2}, {"layer_types", {"full_attention"}}}),
              HasSubstr("layer_types: is [\"full_attention\"], expected one for each layer"));
  EXPECT_THAT(error_of({{"num_hidden_layers", 1}, {"layer_types", {"linear_attention"}}}),
              HasSubstr("layer_types: has \"linear_attention\""));
  EXPECT_THAT(error_of({{"rope_parameters", {{"rope_type", "yarn"}}}}),
              HasSubstr("decoder: rope_parameters: rope_type: \"yarn\" is not supported"));
  EXPECT_THAT(error_of({{"rope_parameters", 3}}),
              HasSubstr("decoder: rope_parameters: is not a JSON object"));
  EXPECT_THAT(error_of({{"rms_norm_eps", 0}}), HasSubstr("rms_norm_eps: is 0"));
  const json nothing = json::object();
  EXPECT_THROW(part_of(ConfigReader("config.json", nothing), "encoder"), InputError);
}

}  // namespace
}  // namespace tandem
