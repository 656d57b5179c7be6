// tandem summarize, tandem translate: whole texts, files and folders in, one text for each out
// (docs/documents.md).
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/readable_text.h"
#include "launcher/commands/command.h"
#include "launcher/commands/document_inputs.h"
#include "launcher/commands/output_folder.h"
#include "launcher/commands/requests.h"
#include "launcher/help.h"
#include "models/config/task_params.h"
#include "runtime/protocol/options_reader.h"
#include "runtime/protocol/prompt_reader.h"
#include "text/language_names.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

enum class Task { kSummarize, kTranslate };

struct DocumentOptions {
  Task task = Task::kSummarize;
  RequestOptions requests;
  SamplingOptions sampling;
  std::vector<std::string> arguments;
  std::string from, to, folder;

  // As a request's `params`; what is not said is the command's. tasks: the model's.
  json params(const std::map<std::string, TaskParams>& tasks) const;
  // Of a file in --output-dir: report.txt → report.summary.txt, report.de.txt.
  std::string output_name(const std::filesystem::path& file) const {
    const std::string what = task == Task::kSummarize ? "summary" : to.empty() ? "translated" : to;
    return file.stem().string() + "." + what + file.extension().string();
  }
};

// A language as names of T5's tasks have it: "de".
std::string code_of(const std::string& language) {
  const auto tag = language_tag(language);
  return tag ? tag->language : language;
}

json DocumentOptions::params(const std::map<std::string, TaskParams>& tasks) const {
  json out = sampling.params();
  if (!out.contains("split")) out["split"] = "auto";
  if (task == Task::kSummarize) {
    if (!out.contains("merge")) out["merge"] = "summary";
    if (!out.contains("task") && tasks.contains("summarization")) out["task"] = "summarization";
    return out;
  }
  // T5 has no tokens of languages: a pair is a task, with a prefix of its own.
  const std::string pair =
      "translation_" + (from.empty() ? "en" : code_of(from)) + "_to_" + code_of(to);
  if (!out.contains("task") && tasks.contains(pair)) {
    out["task"] = pair;
    return out;
  }
  if (!from.empty()) out["src_lang"] = from;
  if (!to.empty()) out["tgt_lang"] = to;
  return out;
}

// Where the texts of a run are from, and where their answers go. Known once it begins.
struct DocumentFiles {
  std::vector<DocumentInput> inputs;
  json params;                         // of each request
  std::optional<OutputFolder> folder;  // absent: standard output
};

// One text for each input, to standard output in their order, or to a file of its own.
class DocumentFormat final : public RequestFormat {
 public:
  explicit DocumentFormat(const DocumentFiles& files) : files_(files) {}

  // The id is the number of the input.
  JsonRequest read(const std::string& text, json& id) const override {
    id = next_++;
    JsonRequest request;
    request.prompt = text_prompt(text);
    request.options = read_options(files_.params);
    return request;
  }

  std::optional<std::string> write(const proto::RequestOutput& output,
                                   const json& id) const override {
    const auto i = id.get<size_t>();
    const std::string& name = files_.inputs.at(i).name;
    for (const std::string& warning : output.warnings())
      std::fprintf(stderr, "tandem: %s%s%s\n", readable(name).c_str(), name.empty() ? "" : ": ",
                   readable(warning).c_str());
    std::string text;
    for (const auto& c : output.outputs()) text += (text.empty() ? "" : "\n") + c.text();
    if (!files_.folder) return text;
    const std::string& end = files_.inputs.at(i).end;
    const std::string why = files_.folder->write(i, text + (end.empty() ? "\n" : end));
    if (!why.empty())
      throw InputError(ErrorKind::kResource,
                       readable(files_.folder->path(i).string()) + ": cannot be written: " + why);
    return std::nullopt;
  }

 private:
  const DocumentFiles& files_;
  mutable size_t next_ = 0;  // texts are read in the order of the inputs
};

DocumentFiles open_files(const DocumentOptions& options) {
  // (A server's tasks are not known here: --task names one.)
  const auto tasks = options.requests.is_remote()
                         ? std::map<std::string, TaskParams>()
                         : task_params(ModelConfig::load(options.requests.engine.find_model()));
  DocumentFiles out{find_documents(options.arguments), options.params(tasks), {}};
  if (options.folder.empty()) return out;
  std::vector<std::string> names;
  for (const DocumentInput& input : out.inputs) {
    if (input.is_text)
      throw UsageError("--output-dir",
                       "is for files; \"" + readable(input.text.substr(0, 40)) + "\" is a text");
    names.push_back(input.name);
  }
  out.folder.emplace(options.folder, names,
                     [&](const std::filesystem::path& file) { return options.output_name(file); });
  return out;
}

int run(DocumentOptions& options) {
  options.requests.settle_model(&options.arguments);
  if (options.arguments.empty())
    throw UsageError("TEXT",
                     "is missing: behind the model come texts, files, folders, or - for standard "
                     "input");
  DocumentFiles files;
  const DocumentFormat format(files);
  return run_requests(options.requests, format, [&] {
    files = open_files(options);
    RequestInput input;
    for (DocumentInput& one : files.inputs) input.texts.push_back(read_text(one));
    return input;
  });
}

Run add_command(CLI::App& app, Task task, const char* command, const char* bar) {
  auto options = std::make_shared<DocumentOptions>();
  options->task = task;
  options->requests.command = command;
  options->requests.bar = bar;
  app.option_defaults()->group("Input and output");
  options->requests.engine.add_model_argument(app);
  app.add_option("TEXT|FILE|FOLDER", options->arguments,
                 "Texts (with a blank in them), files of text, folders with *.txt and *.md files, "
                 "patterns such as \"docs/*.txt\"; - is standard input");
  if (task == Task::kTranslate) {
    app.add_option("--to", options->to, "Language of the output: \"de\", \"German\", \"deu_Latn\"")
        ->type_name("LANGUAGE");
    app.add_option("--from", options->from, "Language of the texts; without it the model's own")
        ->type_name("LANGUAGE");
  }
  app.add_option("--output-dir", options->folder,
                 "Write a file for each, of its name with an ending of its own, to this folder, "
                 "which is made where there is none")
      ->type_name("DIR");
  options->requests.add(app);
  options->sampling.add(app);
  return [options] { return run(*options); };
}

}  // namespace

Run add_summarize(CLI::App& app) {
  return add_command(app, Task::kSummarize, "tandem summarize", "Summarising");
}

Run add_translate(CLI::App& app) {
  return add_command(app, Task::kTranslate, "tandem translate", "Translating");
}

}  // namespace tandem::launcher
