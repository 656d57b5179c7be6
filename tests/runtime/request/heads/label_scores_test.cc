#include "runtime/request/heads/label_scores.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace tandem {
namespace {

proto::Labels labels_named(std::initializer_list<const char*> names) {
  proto::Labels out;
  for (const char* name : names) out.add_names(name);
  return out;
}

TEST(LabelScores, ActivationsAreTheModels) {
  proto::Labels labels = labels_named({"a", "b"});
  const std::vector<float> logits = {1000, 998};
  EXPECT_NEAR(probabilities_of(labels, logits)[0], 1 / (1 + std::exp(-2.0)), 1e-12);
  labels.set_activation(proto::Labels::SIGMOID);
  EXPECT_EQ(probabilities_of(labels, std::vector<float>{0, 1000}), (std::vector<double>{0.5, 1}));
  labels.set_activation(proto::Labels::NONE);
  EXPECT_EQ(probabilities_of(labels, logits), (std::vector<double>{1000, 998}));
  EXPECT_EQ(place_of_largest(std::vector<float>{1, 3, 3}), 1u);
}

TEST(ZeroShot, TemplatesAreFormatted) {
  const auto of = [](const char* text) {
    ZeroShot asked{{"label"}, text};
    return asked.hypothesis(0);
  };
  EXPECT_EQ(of("This is {}."), "This is label.");
  EXPECT_EQ(of("{0} or {}"), "label or label");
  EXPECT_EQ(of("{{}} {}}}"), "{} label}");
  for (const char* wrong : {"none", "{1}", "{name}", "a { b", "a } {}", "{{}}", ""})
    EXPECT_THROW(of(wrong), InputError) << wrong;
}

TEST(ZeroShot, WrongRequestsAreNamed) {
  const auto param_of = [](const ZeroShot& asked) -> std::string {
    try {
      asked.check();
    } catch (const InputError& error) {
      return error.param();
    }
    return "";
  };
  EXPECT_EQ(param_of({}), "labels");
  EXPECT_EQ(param_of({{"a", ""}}), "labels");
  EXPECT_EQ(param_of({{"\xff"}}), "labels");
  EXPECT_EQ(param_of({{"a"}, "no place"}), "hypothesis_template");
  EXPECT_EQ(param_of({{"a"}}), "");
}

std::vector<size_t> order_of(const std::vector<RankedLabel>& ranked) {
  std::vector<size_t> out;
  for (const RankedLabel& one : ranked) out.push_back(one.label);
  return out;
}

// By hand: softmax of the entailment logits, or of (contradiction, entailment) for each label.
TEST(ZeroShot, RanksByEntailment) {
  proto::Labels model = labels_named({"contradiction", "neutral", "entailment"});
  model.set_entailment(2);
  const std::vector<std::vector<float>> logits = {{0, 9, 1}, {5, 0, 2}, {0, 0, 1}};
  ZeroShot asked{{"x", "y", "z"}};
  const auto ranked = rank_labels(asked, model, logits);
  EXPECT_EQ(order_of(ranked), (std::vector<size_t>{1, 2, 0})) << "of equals the later one";
  const double sum = std::exp(1.0) + std::exp(2.0) + std::exp(1.0);
  EXPECT_NEAR(ranked[0].score, std::exp(2.0) / sum, 1e-12);
  asked.multi_label = true;
  const auto each = rank_labels(asked, model, logits);
  EXPECT_EQ(order_of(each), (std::vector<size_t>{2, 0, 1}));
  EXPECT_NEAR(each[2].score, 1 / (1 + std::exp(3.0)), 1e-12);
  const auto one = rank_labels({{"x"}}, model, std::vector<std::vector<float>>{logits[1]});
  EXPECT_NEAR(one[0].score, 1 / (1 + std::exp(3.0)), 1e-12) << "a single label has no others";
}

// HuggingFace's index -1, and the contradiction's where entailment is label 0.
TEST(ZeroShot, PlacesOfEntailment) {
  const std::vector<std::vector<float>> logits = {{1, 4, 2}};
  const auto score = [&](const proto::Labels& model) {
    return rank_labels({{"x"}}, model, logits)[0].score;
  };
  proto::Labels model = labels_named({"a", "b", "c"});
  EXPECT_NEAR(score(model), 1 / (1 + std::exp(-1.0)), 1e-12) << "c against a";
  model.set_entailment(0);
  EXPECT_NEAR(score(model), 1 / (1 + std::exp(1.0)), 1e-12) << "a against c";
  model.set_entailment(1);
  EXPECT_NEAR(score(model), 1 / (1 + std::exp(-3.0)), 1e-12) << "b against a";
}

}  // namespace
}  // namespace tandem
