// Adapters' directories: what is read, and what is refused, by the name of what is wrong.
#include "models/adapters/adapter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "tests/support/adapters/adapter_writer.h"

namespace tandem {
namespace {

using testing::AdapterWriter;
using ::testing::HasSubstr;

constexpr const char* kQuery = "model.encoder.layers.0.self_attn.q_proj";

std::vector<AdaptableModule> modules_of_base() {
  return {{"model.encoder.layers.0.self_attn.q_proj", 6, 8},
          {"model.encoder.layers.0.self_attn.k_proj", 6, 8},
          {"model.encoder.layers.1.self_attn.q_proj", 6, 8},
          {"model.encoder.embed_tokens", 20, 8, /*table=*/true},
          {"lm_head", 20, 8}};
}

// An adapter of all q_proj.
AdapterWriter good_adapter() {
  AdapterWriter out;
  for (const int layer : {0, 1})
    out.add_linear("model.encoder.layers." + std::to_string(layer) + ".self_attn.q_proj", 8, 6, 2);
  return out;
}

Adapter open(const AdapterWriter& writer, const test::TempDir& dir) {
  writer.write(dir);
  Adapter out = Adapter::open(dir.path(), "model", 256);
  out.check_modules(modules_of_base());
  return out;
}

// What is said against it; "": nothing.
std::string refusal(const std::function<void(AdapterWriter&)>& change) {
  AdapterWriter writer = good_adapter();
  change(writer);
  const test::TempDir dir;
  try {
    open(writer, dir);
    return "";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(Adapter, ModulesAreFoundWithAndWithoutThePrefix) {
  const test::TempDir dir;
  Adapter adapter = open(good_adapter(), dir);
  const ModuleChange* change = adapter.find(kQuery);
  ASSERT_NE(change, nullptr);
  EXPECT_EQ(adapter.find("encoder.layers.0.self_attn.q_proj"), change);
  EXPECT_EQ(adapter.find("model.encoder.layers.0.self_attn.k_proj"), nullptr);
  EXPECT_EQ(change->a->shape, (Shape{2, 8}));
  EXPECT_EQ(change->b->shape, (Shape{6, 2}));
  EXPECT_EQ(change->scaling, 2.0f);
}

TEST(Adapter, ScalingsFollowPatternsAndRanks) {
  AdapterWriter writer = good_adapter();
  writer.config["use_rslora"] = true;
  writer.config["alpha_pattern"] = {{"layers\\.1\\..*q_proj", 10}};
  writer.config["rank_pattern"] = {{"0.self_attn.q_proj", 3}};
  writer.add_linear(kQuery, 8, 6, 3);
  const test::TempDir dir;
  Adapter adapter = open(writer, dir);
  EXPECT_FLOAT_EQ(adapter.find(kQuery)->scaling, 4.0f / std::sqrt(3.0f));
  EXPECT_FLOAT_EQ(adapter.find("model.encoder.layers.1.self_attn.q_proj")->scaling,
                  10.0f / std::sqrt(2.0f));
}

// ^ is the beginning of the whole name, $ its end.
TEST(Adapter, PatternsMayBeAnchored) {
  AdapterWriter writer = good_adapter();
  writer.config["rank_pattern"] = {{"^q_proj$", 7}, {"^model.encoder.layers.1.*q_proj", 2}};
  writer.config["alpha_pattern"] = {{"0.self_attn.q_proj$", 10}};
  const test::TempDir dir;
  Adapter adapter = open(writer, dir);
  EXPECT_FLOAT_EQ(adapter.find(kQuery)->scaling, 5.0f);
}

TEST(Adapter, ModulesAreNamedByPatternsAndByLayers) {
  const auto only_first = [](AdapterWriter& w) {
    std::erase_if(w.tensors, [](const auto& t) { return t.first.find(".1.") != t.first.npos; });
  };
  EXPECT_THAT(refusal(only_first), HasSubstr("layers.1.self_attn.q_proj.lora_A.weight is missing"));
  EXPECT_EQ(refusal([&](AdapterWriter& w) {
              only_first(w);
              w.config["layers_to_transform"] = {0};
            }),
            "");
  EXPECT_EQ(refusal([&](AdapterWriter& w) {
              only_first(w);
              w.config["layers_to_transform"] = 0;
              w.config["layers_pattern"] = "layers";
            }),
            "");
  EXPECT_EQ(refusal([&](AdapterWriter& w) {
              only_first(w);
              w.config["target_modules"] = R"(.*encoder\.layers\.0\..*\.q_proj)";
            }),
            "");
  EXPECT_EQ(refusal([&](AdapterWriter& w) {
              only_first(w);
              w.config["exclude_modules"] = {"1.self_attn.q_proj"};
            }),
            "");
  EXPECT_EQ(refusal([](AdapterWriter& w) { w.config["target_modules"] = "all-linear"; }), "");
  // Names that nothing of the base has, and names of which all are excluded, are no errors of PEFT.
  EXPECT_EQ(refusal([](AdapterWriter& w) {
              w.config["target_modules"] = {"q_proj", "v_proj", "k_proj"};
              w.config["exclude_modules"] = {"k_proj"};
            }),
            "");
}

TEST(Adapter, WholeModulesAndEmbeddings) {
  EXPECT_EQ(refusal([](AdapterWriter& w) {
              w.config["modules_to_save"] = {"lm_head"};
              w.add("lm_head.weight", {20, 8});
            }),
            "");
  EXPECT_EQ(refusal([](AdapterWriter& w) {
              w.config["target_modules"] = {"q_proj", "embed_tokens", "lm_head"};
              w.add("model.encoder.embed_tokens.lora_embedding_A", {2, 20});
              w.add("model.encoder.embed_tokens.lora_embedding_B", {8, 2});
              w.add_linear("lm_head", 8, 20, 2);
              w.add("lm_head.base_layer.weight", {20, 8});
            }),
            "");
  EXPECT_THAT(refusal([](AdapterWriter& w) {
                w.add("lm_head.weight", {20, 8});
              }),
              HasSubstr("modules_to_save does not name it"));
}

// PEFT's `bias`: of its own layers they lie on the base's.
TEST(Adapter, TrainedBiases) {
  const test::TempDir dir;
  AdapterWriter writer = good_adapter();
  writer.config["bias"] = "lora_only";
  writer.add(std::string(kQuery) + ".base_layer.bias", {6});
  Adapter adapter = open(writer, dir);
  ASSERT_TRUE(adapter.find(kQuery)->bias.has_value());
  EXPECT_FALSE(adapter.find("model.encoder.layers.1.self_attn.q_proj")->bias.has_value());
  const auto with = [&](const char* biases, const std::string& tensor, int64_t size) {
    return refusal([&](AdapterWriter& w) {
      w.config["bias"] = biases;
      w.add(tensor + ".bias", {size});
    });
  };
  EXPECT_EQ(with("all", "model.encoder.layers.0.self_attn.k_proj", 6), "");
  EXPECT_THAT(with("lora_only", "model.encoder.layers.0.self_attn.k_proj", 6),
              HasSubstr("the configuration's `bias` does not say so"));
  EXPECT_THAT(with("none", kQuery, 6), HasSubstr("does not say so"));
  EXPECT_THAT(with("all", "model.encoder.layers.0.self_attn.k_proj", 7), HasSubstr("needs [6]"));
  EXPECT_THAT(with("all", "model.encoder.layer_norm", 8),
              HasSubstr("which Tandem does not change"));
  EXPECT_THAT(with("all", "model.encoder.embed_tokens", 20), HasSubstr("has no bias"));
  EXPECT_THAT(with("most", kQuery, 6), HasSubstr("must be none, lora_only or all"));
  // Without the base's, which PEFT stores beside changes of heads.
  EXPECT_EQ(with("none", std::string(kQuery) + ".base_layer", 6), "");
}

// PEFT adapts, and saves, the table of both sides too, which nothing of the model reads then.
TEST(Adapter, SharedTablesAndTiedWeights) {
  EXPECT_EQ(refusal([](AdapterWriter& w) {
              w.config["target_modules"] = {"q_proj", "shared"};
              w.add("model.shared.lora_embedding_A", {2, 20});
              w.add("model.shared.lora_embedding_B", {8, 2});
            }),
            "");
  const auto tied = [](AdapterWriter& w) {
    w.config["modules_to_save"] = {"model.shared"};
    for (const char* module : {"model.shared", "model.encoder.embed_tokens", "lm_head"})
      w.add(module + std::string(".weight"), {20, 8});
  };
  EXPECT_THAT(refusal(tied), HasSubstr("modules_to_save does not name it"));
  EXPECT_EQ(refusal([&](AdapterWriter& w) {
              tied(w);
              w.config["ensure_weight_tying"] = true;
            }),
            "");
  EXPECT_THAT(refusal([](AdapterWriter& w) {
                w.config["ensure_weight_tying"] = true;
                w.add_linear("lm_head", 8, 20, 2);
              }),
              HasSubstr("are not supported with ensure_weight_tying"));
}

TEST(Adapter, WhatIsWrongIsNamed) {
  const std::string query = std::string("base_model.model.") + kQuery;
  const std::pair<const char*, std::function<void(AdapterWriter&)>> cases[] = {
      {"peft_type: only LORA is supported",
       [](AdapterWriter& w) { w.config["peft_type"] = "IA3"; }},
      {"r: must be a rank from 1 to 256, found 300", [](AdapterWriter& w) { w.config["r"] = 300; }},
      {"rank is 4", [](AdapterWriter& w) { w.config["r"] = 4; }},
      {".q_proj.lora_B.weight is missing",
       [&](AdapterWriter& w) { w.tensors.erase(query + ".lora_B.weight"); }},
      {".q_proj.lora_A.weight is missing",
       [&](AdapterWriter& w) { w.tensors.erase(query + ".lora_A.weight"); }},
      {"of the base needs [2, 8]",
       [](AdapterWriter& w) {
         w.add(std::string(kQuery) + ".lora_A.weight", {2, 9});
       }},
      {"which the base does not have",
       [](AdapterWriter& w) { w.add_linear("model.encoder.layers.0.self_attn.qq_proj", 8, 6, 2); }},
      {"lora_magnitude_vector is missing", [](AdapterWriter& w) { w.config["use_dora"] = true; }},
      {"use_dora is off",
       [](AdapterWriter& w) { w.add(std::string(kQuery) + ".lora_magnitude_vector", {6}); }},
      {"changes the base's weights",
       [](AdapterWriter& w) { w.config["init_lora_weights"] = "pissa_niter_4"; }},
      {"alora_invocation_tokens: is not supported",
       [](AdapterWriter& w) { w.config["alora_invocation_tokens"] = {1}; }},
      {"target_modules: \"(q\"", [](AdapterWriter& w) { w.config["target_modules"] = "(q"; }},
      {"a linear layer",
       [](AdapterWriter& w) {
         w.config["target_modules"] = {"q_proj", "lm_head"};
         w.add("lm_head.lora_embedding_A", {2, 8});
         w.add("lm_head.lora_embedding_B", {20, 2});
       }},
      {"does not begin with base_model.model.",
       [](AdapterWriter& w) {
         w.tensors["x.lora_A.weight"] = {{1}, {1}};
       }},
      {"is of no kind", [](AdapterWriter& w) { w.add("model.x", {1}); }},
  };
  EXPECT_EQ(refusal([](AdapterWriter&) {}), "");
  for (const auto& [what, change] : cases) EXPECT_THAT(refusal(change), HasSubstr(what));
}

TEST(Adapter, BrokenFilesAreRefused) {
  const auto refused = [](const std::function<void(const test::TempDir&)>& write) {
    const test::TempDir dir;
    good_adapter().write(dir);
    write(dir);
    try {
      Adapter::open(dir.path(), "model", 256);
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_THAT(refused([](const test::TempDir& dir) {
                const std::string file = good_adapter().file();
                dir.write("adapter_model.safetensors", file.substr(0, file.size() - 7));
              }),
              HasSubstr("truncated"));
  EXPECT_THAT(
      refused([](const test::TempDir& dir) { dir.write("adapter_config.json", "{\"r\": "); }),
      HasSubstr("adapter_config.json"));
  EXPECT_THAT(refused([](const test::TempDir& dir) { dir.write("adapter_config.json", "[]"); }),
              HasSubstr("not a JSON object"));
  EXPECT_THAT(refused([](const test::TempDir& dir) {
                std::filesystem::remove(dir / "adapter_model.safetensors");
                dir.write("adapter_model.bin", "x");
              }),
              HasSubstr("safe_serialization"));
  EXPECT_THROW(Adapter::open("/nowhere", "model", 256), InputError);
}

}  // namespace
}  // namespace tandem
