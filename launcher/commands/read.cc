// tandem read: files of images and documents in, the text of each page out.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/json.h"
#include "launcher/commands/command.h"
#include "launcher/commands/files/file_arguments.h"
#include "launcher/commands/files/page_files.h"
#include "launcher/commands/requests.h"
#include "models/family.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/request/answer_reader.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

struct ReadOptions {
  RequestOptions requests;
  SamplingOptions sampling;
  std::vector<std::string> files;
  std::string format = "text";
  std::string prompt, pages;
  int dpi = kDefaultDpi;
};

enum class Written : uint8_t { kText, kJson, kMarkdown };

Written format_named(const std::string& name) {
  if (name == "text") return Written::kText;
  if (name == "json") return Written::kJson;
  if (name == "markdown") return Written::kMarkdown;
  throw invalid_request("--format", "\"" + name + "\" is not one of text, json, markdown");
}

// What the model's answers say, by the files of a model that is there.
struct LocalAnswers {
  explicit LocalAnswers(const std::filesystem::path& model)
      : config(ModelConfig::load(model)),
        tokenizer(load_tokenizer(model)),
        reader(config, *tokenizer) {}
  ModelConfig config;
  std::unique_ptr<Tokenizer> tokenizer;
  AnswerReader reader;
};

// Each line of the input is a page.
class ImageFormat final : public RequestFormat {
 public:
  // find_model: nullptr where it is not on this machine.
  ImageFormat(const PageFiles& pages, Written written, std::string prompt, json defaults,
              std::function<std::filesystem::path()> find_model)
      : pages_(pages),
        written_(written),
        prompt_(std::move(prompt)),
        defaults_(std::move(defaults)),
        find_model_(std::move(find_model)) {}

  JsonRequest read(const std::string& path, json& id) const override {
    id = path;
    JsonRequest request;
    proto::PromptPart& part = *request.prompt.mutable_encoder();
    if (prompt_.empty()) {
      part.set_image(pages_.image(path));
    } else {
      part.set_picture(pages_.image(path));
      part.set_text(prompt_);
    }
    part.set_field(path);
    request.options = read_options(defaults_);
    if (written_ != Written::kText) questions_.emplace(path, question(request.prompt));
    return request;
  }

  std::optional<std::string> write(const proto::RequestOutput& output,
                                   const json& id) const override {
    std::string text;
    for (const auto& c : output.outputs())
      text += (&c == &output.outputs(0) ? "" : "\n") + c.text();
    if (written_ == Written::kText) return text;
    const AnswerReader::Question question = take_question(id);
    if (written_ == Written::kMarkdown) {
      const nlohmann::ordered_json page = parsed(question, output, 0);
      return page.is_string() ? page.get<std::string>() : text;
    }
    const PageFiles::Place place = pages_.place(id.get<std::string>());
    nlohmann::ordered_json line = {{"file", place.file}};
    if (place.page > 0) line["page"] = place.page;
    line["text"] = text;
    if (output.outputs_size() > 0) line["token_ids"] = output.outputs(0).token_ids();
    if (question.has_form()) line["parsed"] = parsed(question, output, 0);
    return dump_ordered_line(line);
  }

  std::optional<std::string> fail(const json& id) const override {
    take_question(id);
    return std::nullopt;
  }

 private:
  AnswerReader::Question question(const proto::Prompt& prompt) const {
    if (find_model_ != nullptr && answers_ == nullptr)
      answers_ = std::make_unique<LocalAnswers>(find_model_());
    AnswerReader::Question out;
    if (answers_) out = answers_->reader.question(prompt);
    if (written_ == Written::kMarkdown && out.form.kind != AnswerForm::Kind::kMarkdown)
      throw invalid_request("--format", "the model's answers are not Markdown");
    return out;
  }

  AnswerReader::Question take_question(const json& id) const {
    const auto found = questions_.find(id.is_string() ? id.get<std::string>() : "");
    if (found == questions_.end()) return {};
    AnswerReader::Question out = std::move(found->second);
    questions_.erase(found);
    return out;
  }

  nlohmann::ordered_json parsed(const AnswerReader::Question& question,
                                const proto::RequestOutput& output, int index) const {
    const auto& ids = output.outputs(index).token_ids();
    const auto& prompt = output.inputs().prompt_token_ids();
    return answers_->reader.read(question, {prompt.data(), static_cast<size_t>(prompt.size())},
                                 {ids.data(), static_cast<size_t>(ids.size())});
  }

  const PageFiles& pages_;
  Written written_;
  std::string prompt_;
  json defaults_;
  std::function<std::filesystem::path()> find_model_;
  mutable std::unique_ptr<LocalAnswers> answers_;                         // once it is needed
  mutable std::multimap<std::string, AnswerReader::Question> questions_;  // in flight, by file
};

int run(ReadOptions& options) {
  options.requests.settle_model(&options.files);
  if (options.files.empty()) throw invalid_request("FILE", "is missing: an image to read");
  options.files = expand_files(options.files, image_files());
  const Written written = format_named(options.format);
  if (written == Written::kMarkdown && options.requests.is_remote())
    throw invalid_request("--format",
                          "markdown needs the model's files, which --connect leaves to the server");
  options.requests.jsonl = written == Written::kJson;
  std::function<std::filesystem::path()> find_model;
  if (!options.requests.is_remote())
    find_model = [&options] { return options.requests.engine.find_model(); };
  PageFiles files(
      options.pages.empty() ? std::vector<PageRange>() : read_page_ranges(options.pages, "--pages"),
      options.dpi);
  const ImageFormat format(files, written, options.prompt, options.sampling.params(), find_model);
  return run_requests(options.requests, format, [&] {
    std::vector<std::string> pages = files.pages_of_files(options.files);
    options.requests.keep_places = pages.size() > 1;
    return RequestInput{nullptr, std::move(pages), 0};
  });
}

}  // namespace

Run add_read(CLI::App& app) {
  auto options = std::make_shared<ReadOptions>();
  options->requests.command = "tandem read";
  options->requests.bar = "Reading";
  options->requests.ahead = 1;  // images take memory
  app.option_defaults()->group("Input and output");
  options->requests.engine.add_model_argument(app);
  app.add_option(
      "FILE", options->files,
      "Images to read: PNG, JPEG, WebP, GIF, BMP or TIFF; PDF files, page by page; folders "
      "of them, patterns such as \"scans/*.png\"; - is standard input");
  app.add_option("--pages", options->pages, "Pages of PDF files, such as 1-3,7,9-; without it, all")
      ->type_name("LIST");
  app.add_option("--dpi", options->dpi, "Dots per inch of the images that PDF pages become")
      ->check(CLI::Range(kLeastDpi, kMostDpi))
      ->capture_default_str();
  app.add_option("--format", options->format,
                 "text writes the text of each, json a line with \"file\", \"text\" and what "
                 "the model's tags and places say (\"parsed\"), markdown the pages of a model that "
                 "writes Markdown")
      ->capture_default_str();
  app.add_option("--prompt", options->prompt,
                 "A text beside each image, for models that read both: a question, or a task such "
                 "as \"<OCR>\"");
  options->requests.add(app);
  options->sampling.add(app);
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
