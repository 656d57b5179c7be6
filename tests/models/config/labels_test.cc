#include "models/config/labels.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tandem {
namespace {

using nlohmann::json;
using OfLabels = ModelLabels::Activation;

ModelLabels labels(const json& raw, const char* model_type = "t5") {
  ModelConfig config;
  config.raw = raw;
  config.model_type = model_type;
  return labels_of(config);
}

TEST(ModelLabels, AreThoseOfTheConfiguration) {
  const ModelLabels found =
      labels({{"id2label", {{"1", "no"}, {"0", "Entailment"}, {"2", "maybe"}}}, {"num_labels", 7}});
  EXPECT_EQ(found.names, (std::vector<std::string>{"Entailment", "no", "maybe"}));
  EXPECT_EQ(found.entailment, 0);
  EXPECT_EQ(found.activation, OfLabels::kSoftmax);
  const json eleven = [] {
    json ids;
    for (int i = 0; i < 11; ++i) ids[std::to_string(i)] = "label " + std::to_string(i);
    return ids;
  }();
  EXPECT_EQ(labels({{"id2label", eleven}}).names[10], "label 10") << "in the order of numbers";
}

TEST(ModelLabels, HaveDefaults) {
  EXPECT_EQ(labels(json::object()).names, (std::vector<std::string>{"LABEL_0", "LABEL_1"}));
  EXPECT_EQ(labels(json::object(), "bart").names.size(), 3u);
  EXPECT_EQ(labels({{"num_labels", 5}}, "bart").names.size(), 5u);
  EXPECT_FALSE(labels(json::object()).entailment.has_value());
}

TEST(ModelLabels, label2idDecidesWhatEntails) {
  const json names = {{"0", "a"}, {"1", "entailment"}};
  EXPECT_EQ(labels({{"id2label", names}}).entailment, 1);
  EXPECT_EQ(labels({{"id2label", names}, {"label2id", {{"ENTAILS", 0}}}}).entailment, 0);
  EXPECT_FALSE(labels({{"id2label", names}, {"label2id", {{"x", 0}}}}).entailment.has_value());
}

TEST(ModelLabels, ProblemTypes) {
  EXPECT_EQ(labels({{"num_labels", 1}}).activation, OfLabels::kSigmoid);
  EXPECT_EQ(labels({{"problem_type", "multi_label_classification"}}).activation,
            OfLabels::kSigmoid);
  EXPECT_EQ(labels({{"problem_type", "regression"}}).activation, OfLabels::kNone);
  EXPECT_EQ(labels({{"problem_type", nullptr}}).activation, OfLabels::kSoftmax);
}

TEST(ModelLabels, WrongOnesAreNamed) {
  const auto key_of = [](const json& raw) -> std::string {
    try {
      labels(raw);
    } catch (const InputError& error) {
      return error.param();
    }
    return "";
  };
  for (const json& wrong : {json(3), json::object(), json{{"x", "a"}}, json{{"1", "a"}},
                            json{{"0", 1}}, json{{"99999999999", "a"}}})
    EXPECT_EQ(key_of({{"id2label", wrong}}), "id2label") << wrong;
  EXPECT_EQ(key_of({{"label2id", {{"entailment", 2}}}}), "label2id");
  EXPECT_EQ(key_of({{"label2id", {{"entailment", "x"}}}}), "label2id");
  EXPECT_EQ(key_of({{"num_labels", 0}}), "num_labels");
}

}  // namespace
}  // namespace tandem
