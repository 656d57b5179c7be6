// tandem classify: the labels of texts, those of the model or any that are given (zero-shot).
#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/strings/readable_text.h"
#include "launcher/commands/command.h"
#include "launcher/commands/files/document_files.h"
#include "launcher/commands/files/input.h"
#include "launcher/commands/head_options.h"
#include "launcher/commands/zero_shot.h"
#include "runtime/request/heads/head_json.h"
#include "runtime/request/heads/label_scores.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

struct ClassifyOptions {
  HeadOptions head;
  std::optional<std::string> pair, labels;
  std::string folder;
  ZeroShot zero_shot;
  std::optional<DocumentFiles> files;  // of the arguments, once they have been read

  RequestInput open();
};

// Of a file in --output-dir: report.html → report.labels.txt.
std::string output_name(const std::filesystem::path& file) {
  return file.stem().string() + ".labels.txt";
}

// Arguments are texts and files, as those of tandem summarize.
RequestInput ClassifyOptions::open() {
  take_pipe(head.texts, head.requests.jsonl ? "-" : head.requests.input);
  if (head.requests.jsonl || head.lines || head.texts.empty() || !head.requests.input.empty()) {
    if (!folder.empty())
      throw invalid_request("--output-dir", "is for files: give them behind the model");
    return head.open();
  }
  DocumentFileOptions options;
  options.text_alone = true;
  options.output_folder = folder;
  options.output_name = output_name;
  files.emplace(find_documents(head.texts), options);
  RequestInput input;
  input.texts = files->requests();
  return input;
}

// A line for each label, the likeliest first.
std::string labels_of_text(const proto::RequestOutput& output) {
  const proto::Labels& labels = output.inputs().labels();
  const json found = classification_to_json(output, json());
  std::multimap<double, std::string, std::greater<>> by_score;
  for (int i = 0; i < labels.names_size(); ++i)
    by_score.emplace(found["probs"][static_cast<size_t>(i)].get<double>(), labels.names(i));
  std::string out;
  for (const auto& [value, label] : by_score) add_label_line(out, value, label);
  return out;
}

class ClassifyFormat final : public HeadFormat {
 public:
  explicit ClassifyFormat(ClassifyOptions& options)
      : HeadFormat(options.head, classification_to_json),
        pair_(options.pair),
        files_(options.files) {}

  std::optional<std::string> write(const proto::RequestOutput& output,
                                   const json& id) const override {
    if (options_.requests.jsonl) return HeadFormat::write(output, id);
    const std::string labels = labels_of_text(output);
    if (files_) return take_labels(*files_, id.get<size_t>(), labels);
    return readable(output.inputs().encoder_prompt()) + "\n" + labels;
  }
  std::string name_of(const json& id) const override {
    return files_ && id.is_number() ? files_->name_of(id.get<size_t>()) : "";
  }
  std::optional<std::string> fail(const json& id) const override {
    return files_ && id.is_number() ? files_->fail(id.get<size_t>()) : std::nullopt;
  }

 private:
  const std::string* second() const override { return pair_ ? &*pair_ : nullptr; }

  const std::optional<std::string>& pair_;
  std::optional<DocumentFiles>& files_;
};

int run(ClassifyOptions& options) {
  HeadOptions& head = options.head;
  head.settle();
  if (options.pair && head.requests.jsonl)
    throw invalid_request("--text-pair", "is for texts; a line of --jsonl has a text_pair");
  if (options.labels) {
    if (options.pair) throw invalid_request("--text-pair", "is what --labels put behind the text");
    options.zero_shot.labels = split_labels(*options.labels);
    options.zero_shot.check();
    return run_zero_shot(head, options.zero_shot, [&] {
      RequestInput input = options.open();
      return ZeroShotInput{std::move(input), options.files ? &*options.files : nullptr};
    });
  }
  if (options.zero_shot.multi_label) throw invalid_request("--multi-label", "needs --labels");
  const ClassifyFormat format(options);
  return run_requests(head.requests, format, [&] { return options.open(); });
}

}  // namespace

Run add_classify(CLI::App& app) {
  auto options = std::make_shared<ClassifyOptions>();
  HeadOptions& head = options->head;
  head.pooling.set_kind(proto::Pooling::LABELS);
  head.add_input(
      app, "tandem classify", "Classifying",
      "Texts, files of text, Markdown, HTML, XML or subtitles, folders of them, patterns "
      "such as \"docs/*.txt\"; - is standard input",
      "Read {\"id\", \"text\", \"text_pair\"} from each line, and write logits, "
      "probabilities and the label (docs/classifying.md)");
  app.add_option("--text-pair", options->pair,
                 "The second text of each pair, such as a hypothesis behind its premise");
  app.add_option("--output-dir", options->folder,
                 "Write a file for each, of its name with .labels.txt behind it, to this folder, "
                 "which is made where there is none")
      ->type_name("DIR");
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
