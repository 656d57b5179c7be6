#include "runtime/request/heads/label_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/error.h"
#include "base/strings/printable.h"
#include "base/strings/utf8.h"

namespace tandem {
namespace {

std::vector<double> softmax(const std::vector<double>& logits) {
  const double most = *std::max_element(logits.begin(), logits.end());
  std::vector<double> out;
  double sum = 0;
  for (const double logit : logits) sum += out.emplace_back(std::exp(logit - most));
  for (double& value : out) value /= sum;
  return out;
}

InputError bad_template(const std::string& text, const std::string& why) {
  return invalid_request("hypothesis_template", in_quotes(text) + " " + why);
}

}  // namespace

std::vector<double> probabilities_of(const proto::Labels& labels, std::span<const float> logits) {
  TANDEM_CHECK_EQ(std::ssize(logits), labels.names_size());
  std::vector<double> out(logits.begin(), logits.end());
  if (labels.activation() == proto::Labels::SOFTMAX) return softmax(out);
  if (labels.activation() == proto::Labels::SIGMOID)
    for (double& value : out) value = 1 / (1 + std::exp(-value));
  return out;
}

size_t place_of_largest(std::span<const float> values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

std::string ZeroShot::hypothesis(size_t label) const {
  const std::string& text = hypothesis_template;
  std::string out;
  bool found = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool twice = i + 1 < text.size() && text[i + 1] == text[i];
    if (text[i] != '{' && text[i] != '}') {
      out += text[i];
    } else if (twice) {
      out += text[i++];
    } else {
      const size_t close = text[i] == '{' ? text.find('}', i) : text.npos;
      const std::string inside = close == text.npos ? "?" : text.substr(i + 1, close - i - 1);
      if (!inside.empty() && inside != "0")
        throw bad_template(text, "has braces that are no {}; write {{ and }} for braces");
      out += labels[label];
      found = true;
      i = close;
    }
  }
  if (!found) throw bad_template(text, "has no {}, where the label goes");
  return out;
}

void ZeroShot::check() const {
  if (labels.empty()) throw invalid_request("labels", "there are none");
  for (const std::string& label : labels) {
    if (label.empty()) throw invalid_request("labels", "one of them is empty");
    check_utf8(label, "labels");
  }
  check_utf8(hypothesis_template, "hypothesis_template");
  hypothesis(0);
}

std::vector<RankedLabel> rank_labels(const ZeroShot& asked, const proto::Labels& of_model,
                                     std::span<const std::vector<float>> logits) {
  TANDEM_CHECK_EQ(logits.size(), asked.labels.size());
  const auto last = static_cast<size_t>(of_model.names_size()) - 1;
  const size_t entailment =
      of_model.has_entailment() ? static_cast<size_t>(of_model.entailment()) : last;
  const size_t contradiction = of_model.has_entailment() && entailment == 0 ? last : 0;
  std::vector<double> scores;
  for (const std::vector<float>& row : logits) {
    TANDEM_CHECK_EQ(row.size(), last + 1);
    scores.push_back(row[entailment]);
    if (asked.multi_label || logits.size() == 1)
      scores.back() = softmax({row[contradiction], row[entailment]})[1];
  }
  if (!asked.multi_label && logits.size() > 1) scores = softmax(scores);
  std::vector<RankedLabel> out;
  for (size_t i = 0; i < scores.size(); ++i) out.push_back({i, scores[i]});
  std::stable_sort(out.begin(), out.end(),
                   [](const auto& a, const auto& b) { return a.score < b.score; });
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace tandem
