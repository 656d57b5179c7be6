// tandem summarize, tandem translate: whole texts, files and folders in, one text for each out
// (docs/documents.md).
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/strings/readable_text.h"
#include "launcher/commands/command.h"
#include "launcher/commands/files/document_files.h"
#include "launcher/commands/files/glossary_file.h"
#include "launcher/commands/files/input.h"
#include "launcher/commands/requests.h"
#include "launcher/help.h"
#include "models/config/task_params.h"
#include "models/family.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/request/params/language_rules.h"
#include "text/language_names.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

enum class Task { kSummarize, kTranslate };

constexpr const char* kDetected = "auto";  // --from

struct DocumentOptions {
  Task task = Task::kSummarize;
  RequestOptions requests;
  SamplingOptions sampling;
  std::vector<std::string> arguments;
  std::string from, to, folder, format = "auto", glossary;

  bool detects() const { return from == kDetected; }
  // As a request's `params`; what is not said is the command's. tasks: the model's. source: the
  // language of the text; empty: the model's own.
  json params(const std::map<std::string, TaskParams>& tasks, const std::string& source) const;
  // Of a file in --output-dir: report.html → report.summary.txt, report.de.html.
  std::string output_name(const std::filesystem::path& file) const {
    const auto known = document_format_of_file(file.filename().string());
    const bool becomes_text =
        task == Task::kSummarize && known && *known != DocumentFormat::kText && format != "text";
    const std::string what = task == Task::kSummarize ? "summary" : to.empty() ? "translated" : to;
    return file.stem().string() + "." + what + (becomes_text ? ".txt" : file.extension().string());
  }
};

// A language as names of T5's tasks have it: "de".
std::string code_of(const std::string& language) {
  const auto tag = language_tag(language);
  return tag ? tag->language : language;
}

json DocumentOptions::params(const std::map<std::string, TaskParams>& tasks,
                             const std::string& source) const {
  json out = sampling.params();
  if (!out.contains("split")) out["split"] = "auto";
  if (task == Task::kSummarize) {
    if (!out.contains("merge")) out["merge"] = "summary";
    if (!out.contains("task") && tasks.contains("summarization")) out["task"] = "summarization";
    return out;
  }
  // T5 has no tokens of languages: a pair is a task, with a prefix of its own.
  const std::string pair =
      "translation_" + (source.empty() ? "en" : code_of(source)) + "_to_" + code_of(to);
  if (!out.contains("task") && tasks.contains(pair)) {
    out["task"] = pair;
    return out;
  }
  if (!source.empty()) out["src_lang"] = source;
  if (!to.empty()) out["tgt_lang"] = to;
  return out;
}

// What is known once the run begins.
struct DocumentRun {
  std::map<std::string, TaskParams> tasks;
  std::map<std::string, json> params;  // of requests, by their language
  std::optional<DocumentFiles> files;
};

// A request for each text of the documents.
class DocumentTexts final : public RequestFormat {
 public:
  DocumentTexts(const DocumentOptions& options, DocumentRun& run) : options_(options), run_(run) {}

  // The id is the number of the request.
  JsonRequest read(const std::string& text, json& id) const override {
    id = next_++;
    JsonRequest request;
    request.prompt = text_prompt(text);
    const std::string& language =
        options_.detects() ? run_.files->language_of(id.get<size_t>()) : options_.from;
    const auto [params, is_new] = run_.params.try_emplace(language);
    if (is_new) params->second = options_.params(run_.tasks, language);
    request.options = read_options(params->second);
    return request;
  }

  std::optional<std::string> write(const proto::RequestOutput& output,
                                   const json& id) const override {
    const auto i = id.get<size_t>();
    const std::string& name = run_.files->name_of(i);
    for (const std::string& warning : output.warnings())
      std::fprintf(stderr, "tandem: %s%s%s\n", readable(name).c_str(), name.empty() ? "" : ": ",
                   readable(warning).c_str());
    std::string text;
    for (const auto& c : output.outputs()) text += (text.empty() ? "" : "\n") + c.text();
    return run_.files->take(i, text);
  }

  std::optional<std::string> fail(const json& id) const override {
    return run_.files->fail(id.get<size_t>());
  }
  bool is_told(const json& id) const override {
    return id.is_number() && run_.files->has_failed(id.get<size_t>());
  }
  std::string name_of(const json& id) const override {
    return id.is_number() ? run_.files->name_of(id.get<size_t>()) : "";
  }

 private:
  const DocumentOptions& options_;
  DocumentRun& run_;
  mutable size_t next_ = 0;  // texts are read in the order of the inputs
};

// Whether the family's tokenizers tell languages apart. (To load one takes as long as the engine
// does for it.)
bool knows_languages(const ModelConfig& config) {
  const auto& rules = find_family(config).tokenizers;
  return std::any_of(rules.begin(), rules.end(), [](const TokenizerRule& rule) {
    return rule.languages.target != TokenizerRule::Languages::Target::kNone;
  });
}

// A model that has no languages, or has other pairs of them, would refuse each text.
void check_named_target(const std::filesystem::path& directory, const ModelConfig& config,
                        const std::map<std::string, TaskParams>& tasks) {
  const auto tokenizer = load_tokenizer(directory);
  const LanguageSet& languages = tokenizer->languages();
  if (!languages.empty() || !OwnLanguages::of(config, languages).target.empty()) return;
  std::string pairs;
  for (const auto& [name, task] : tasks)
    if (name.starts_with("translation_")) pairs += (pairs.empty() ? "" : ", ") + readable(name);
  throw invalid_request("--to", pairs.empty() ? "the model has no languages to choose from; leave "
                                                "out --to if it translates all the same"
                                              : "the model translates these pairs only: " + pairs);
}

// A model of many languages would answer in any of them.
void check_target(const std::filesystem::path& directory, const ModelConfig& config) {
  const auto tokenizer = load_tokenizer(directory);
  const LanguageSet& languages = tokenizer->languages();
  if (needs_target_language(config, languages))
    throw invalid_request("--to", "is missing: the model translates into " +
                                      std::to_string(languages.names().size()) +
                                      " languages, which tandem inspect lists");
}

void open_files(const DocumentOptions& options, DocumentRun& run) {
  // (A server's tasks and languages are not known here: --task and --to name them.)
  json params = options.params({}, "");
  if (!options.requests.is_remote()) {
    const std::filesystem::path directory = options.requests.engine.find_model();
    const ModelConfig config = ModelConfig::load(directory);
    run.tasks = task_params(config);
    bool names_target = options.task == Task::kSummarize;
    for (const char* name : {"tgt_lang", "task", "forced_bos_token_id", "decoder_prompt"})
      names_target |= params.contains(name);
    if (!names_target) check_target(directory, config);
    // (What a document's language makes of a pair is known when it is read.)
    if (!options.to.empty() && !options.detects() && !knows_languages(config) &&
        options.params(run.tasks, options.from).contains("tgt_lang"))
      check_named_target(directory, config, run.tasks);
  }
  DocumentFileOptions files;
  if (options.format != "auto") {
    files.format = document_format_named(options.format);
    if (!files.format)
      throw invalid_request("--format",
                            "\"" + readable(options.format) +
                                "\" is not one of auto, text, markdown, html, xml, srt, vtt");
  }
  files.text_alone = options.task == Task::kSummarize;
  files.detects = options.detects();
  if (!files.detects) files.rules.language = options.from;
  const std::string split =
      params.value("split", json("auto")).is_string() ? params.value("split", "auto") : "auto";
  files.rules.sentences = split != "none" && split != "paragraphs";
  std::optional<Glossary> glossary;
  if (!options.glossary.empty())
    files.rules.glossary = &glossary.emplace(read_glossary_file(options.glossary, "--glossary"));
  files.output_folder = options.folder;
  files.output_name = [&](const std::filesystem::path& file) { return options.output_name(file); };
  run.files.emplace(find_documents(options.arguments), files);
}

int run(DocumentOptions& options) {
  options.requests.settle_model(&options.arguments);
  take_pipe(options.arguments);
  if (options.arguments.empty())
    throw invalid_request("TEXT", "is missing: " + options.requests.engine.model_argument() +
                                      "behind it come texts, files, folders, or - for standard "
                                      "input");
  DocumentRun state;
  const DocumentTexts format(options, state);
  return run_requests(options.requests, format, [&] {
    open_files(options, state);
    if (const auto first = state.files->take_first()) std::cout << *first << "\n";
    RequestInput input;
    input.texts = state.files->requests();
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
                 "Texts, files of text, Markdown, HTML, XML or subtitles, "
                 "folders of them, patterns such as \"docs/*.txt\"; - is standard input");
  if (task == Task::kTranslate) {
    app.add_option("--to", options->to, "Language of the output: \"de\", \"German\", \"deu_Latn\"")
        ->type_name("LANGUAGE");
    app.add_option("--from", options->from,
                   "Language of the texts; auto finds out that of each document; without it the "
                   "model's own")
        ->type_name("LANGUAGE");
  }
  app.add_option("--format", options->format,
                 "What the documents are: text, markdown, html, xml, srt, vtt; auto: by the "
                 "endings of their names")
      ->type_name("FORMAT")
      ->capture_default_str();
  if (task == Task::kTranslate)
    app.add_option("--glossary", options->glossary,
                   "Words with translations of their own: lines of a source, a tab and a target "
                   "(.tsv), or with a comma (.csv)")
        ->type_name("FILE");
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
