// tandem classify: the labels of texts, those of the model or any that are given (zero-shot).
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/strings/readable_text.h"
#include "launcher/commands/command.h"
#include "launcher/commands/head_options.h"
#include "launcher/commands/zero_shot.h"
#include "runtime/request/heads/head_json.h"
#include "runtime/request/heads/label_scores.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

struct ClassifyOptions {
  HeadOptions head;
  std::optional<std::string> pair;
  std::string labels;
  ZeroShot zero_shot;
};

// A line for each label, the likeliest first, under the text that they are of.
std::string labels_of_text(const proto::RequestOutput& output) {
  const proto::Labels& labels = output.inputs().labels();
  const json found = classification_to_json(output, json());
  std::multimap<double, std::string, std::greater<>> by_score;
  for (int i = 0; i < labels.names_size(); ++i)
    by_score.emplace(found["probs"][static_cast<size_t>(i)].get<double>(), labels.names(i));
  std::string out = readable(output.inputs().encoder_prompt());
  char score[32];
  for (const auto& [value, label] : by_score) {
    std::snprintf(score, sizeof(score), "\n%8.4f  ", value);
    out += score + readable(label);
  }
  return out;
}

class ClassifyFormat final : public HeadFormat {
 public:
  explicit ClassifyFormat(const ClassifyOptions& options)
      : HeadFormat(options.head, classification_to_json), pair_(options.pair) {}

  std::optional<std::string> write(const proto::RequestOutput& output,
                                   const json& id) const override {
    if (options_.requests.jsonl) return HeadFormat::write(output, id);
    return labels_of_text(output);
  }

 private:
  const std::string* second() const override { return pair_ ? &*pair_ : nullptr; }

  const std::optional<std::string>& pair_;
};

int run(ClassifyOptions& options) {
  HeadOptions& head = options.head;
  head.settle();
  if (options.pair && head.requests.jsonl)
    throw invalid_request("--text-pair", "is for texts; a line of --jsonl has a text_pair");
  if (!options.labels.empty()) {
    if (options.pair) throw invalid_request("--text-pair", "is what --labels put behind the text");
    options.zero_shot.labels = split_labels(options.labels);
    options.zero_shot.check();
    return run_zero_shot(head, options.zero_shot);
  }
  if (options.zero_shot.multi_label) throw invalid_request("--multi-label", "needs --labels");
  const ClassifyFormat format(options);
  return run_requests(head.requests, format, [&] { return head.open(); });
}

}  // namespace

Run add_classify(CLI::App& app) {
  auto options = std::make_shared<ClassifyOptions>();
  HeadOptions& head = options->head;
  head.pooling.set_kind(proto::Pooling::LABELS);
  head.add_input(app, "tandem classify", "Classifying", "Texts to read; - is standard input",
                 "Read {\"id\", \"text\", \"text_pair\"} from each line, and write logits, "
                 "probabilities and the label (docs/classifying.md)");
  app.add_option("--text-pair", options->pair,
                 "The second text of each pair, such as a hypothesis behind its premise");
  app.option_defaults()->group("Labels of your own");
  app.add_option("--labels", options->labels,
                 "Labels with commas between them: how well does each fit? For models of natural "
                 "language inference, as HuggingFace's zero-shot-classification")
      ->type_name("LABELS");
  app.add_option("--hypothesis-template", options->zero_shot.hypothesis_template,
                 "The sentence that says that a label fits; {} is the label")
      ->capture_default_str();
  app.add_flag("--multi-label", options->zero_shot.multi_label,
               "Judge each label by itself: several may fit, or none");
  head.requests.add(app);
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
