// Encoders of sound: what config.json says of them, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "models/sides/conformer_encoder.h"
#include "models/sides/wave_encoder.h"

namespace tandem::sound_sides_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

WaveEncoderConfig wave(const json& more) { return read_wave_encoder({"config.json", more}); }
ConformerConfig conformer(const json& more) { return read_conformer({"config.json", more}); }

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return {};
}

TEST(WaveEncoders, DefaultsOfTheirClass) {
  const WaveEncoderConfig c = wave(json::object());
  EXPECT_EQ(c.steps.size(), 7u);
  EXPECT_EQ(c.width, 768);
  EXPECT_EQ(c.adapters, 0);
  EXPECT_FALSE(c.step_norms);
  // HuggingFace's lengths: 20 ms a position, and no position of fewer than 400 samples.
  EXPECT_EQ(c.positions_of(399), 0);
  EXPECT_EQ(c.positions_of(400), 1);
  EXPECT_EQ(c.positions_of(16000), 49);
}

TEST(WaveEncoders, AnAdapterHalvesTheLength) {
  const WaveEncoderConfig c = wave({{"add_adapter", true}, {"output_hidden_size", 1024}});
  EXPECT_EQ(c.width, 1024);
  EXPECT_EQ(c.adapters, 3);
  EXPECT_EQ(c.positions_of(16000), 7);  // 49, 25, 13
}

TEST(WaveEncoders, WhatCannotBe) {
  EXPECT_THAT(error_of([] { wave({{"conv_dim", {4, 4}}}); }), HasSubstr("conv_dim"));
  EXPECT_THAT(error_of([] { wave({{"conv_kernel", "wide"}}); }), HasSubstr("conv_kernel"));
  EXPECT_THAT(error_of([] {
                wave({{"feat_extract_norm", "batch"}});
              }),
              HasSubstr("feat_extract_norm"));
  EXPECT_THAT(error_of([] {
                wave({{"num_conv_pos_embedding_groups", 7}});
              }),
              HasSubstr("num_conv_pos_embedding_groups"));
  EXPECT_THAT(error_of([] {
                wave({{"output_hidden_size", 1024}});
              }),
              HasSubstr("output_hidden_size"));
  EXPECT_THAT(error_of([] {
                wave({{"add_adapter", true}, {"adapter_kernel_size", 5}});
              }),
              HasSubstr("adapter_kernel_size"));
  EXPECT_THAT(error_of([] { wave({{"adapter_attn_dim", 16}}); }), HasSubstr("adapter_attn_dim"));
}

TEST(Conformers, DefaultsOfTheirClass) {
  const ConformerConfig c = conformer(json::object());
  EXPECT_EQ(c.columns, (std::vector<int>{80, 40, 20, 10}));
  EXPECT_TRUE(c.scaled);
  EXPECT_EQ(c.positions_of(1), 1);
  EXPECT_EQ(c.positions_of(100), 13);  // 50, 25
}

TEST(Conformers, WhatCannotBe) {
  EXPECT_THAT(error_of([] { conformer({{"num_mel_bins", 81}}); }), HasSubstr("num_mel_bins"));
  EXPECT_THAT(error_of([] {
                conformer({{"conv_kernel_size", 8}});
              }),
              HasSubstr("conv_kernel_size"));
  EXPECT_THAT(error_of([] {
                conformer({{"subsampling_factor", 1}});
              }),
              HasSubstr("subsampling_factor"));
  EXPECT_THAT(error_of([] {
                conformer({{"num_attention_heads", 3}});
              }),
              HasSubstr("num_attention_heads"));
}

}  // namespace
}  // namespace tandem::sound_sides_test
