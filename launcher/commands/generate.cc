// tandem generate: texts or JSONL requests in, generated texts or JSONL results out.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/strings/readable_text.h"
#include "launcher/commands/command.h"
#include "launcher/commands/requests.h"
#include "launcher/speech/audio_request.h"
#include "runtime/protocol/json/json_line.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

struct GenerateOptions {
  RequestOptions requests;
  SamplingOptions sampling;
  std::vector<std::string> texts;
  bool lines = false;
};

// A line stays one: what would end it becomes a blank; of several sequences, tabs in them too.
void keep_to_a_line(std::string& text, bool several) {
  for (char& c : text)
    if (c == '\n' || c == '\r' || (several && c == '\t')) c = ' ';
}

class GenerateFormat final : public RequestFormat {
 public:
  GenerateFormat(bool jsonl, bool lines, json defaults)
      : jsonl_(jsonl), lines_(lines), defaults_(std::move(defaults)) {}

  JsonRequest read(const std::string& line, json& id) const override {
    if (jsonl_) {
      json parsed = parse_json_line(line);
      if (parsed.is_object() && parsed.contains("id")) id = parsed["id"];
      return local_request_from_json(std::move(parsed), defaults_);
    }
    JsonRequest request;
    request.prompt = text_prompt(line);
    request.options = read_options(defaults_);
    return request;
  }

  std::optional<std::string> write(const proto::RequestOutput& output,
                                   const json& id) const override {
    if (jsonl_) return dump_line(result_to_json(output, id));
    for (const std::string& warning : output.warnings())
      std::fprintf(stderr, "tandem: %s\n", readable(warning).c_str());
    std::string text;
    for (const auto& c : output.outputs()) {
      std::string one = c.text();
      if (lines_) keep_to_a_line(one, output.outputs_size() > 1);
      if (&c != &output.outputs(0)) text += lines_ ? '\t' : '\n';
      text += one;
    }
    return text;
  }

 private:
  bool jsonl_, lines_;
  json defaults_;
};

int run(GenerateOptions& options) {
  RequestOptions& requests = options.requests;
  if (requests.stream && !requests.jsonl) throw invalid_request("--stream", "is for --jsonl");
  if (options.lines && requests.jsonl)
    throw invalid_request("--lines", "is for texts; each line of --jsonl is a request");
  requests.settle_model(&options.texts);
  requests.keep_places = options.lines || options.texts.size() > 1;
  const GenerateFormat format(requests.jsonl, options.lines, options.sampling.params());
  const auto open_input = [&] {
    if (requests.jsonl) return open_jsonl(requests, options.texts);
    take_pipe(options.texts, requests.input);
    if (requests.engine.first_is_model && options.texts.empty() && requests.input.empty())
      throw invalid_request("TEXT", "is missing: " + requests.engine.model_argument() +
                                        "behind it come texts, --input FILE, or - for standard "
                                        "input");
    return open_texts(options.texts, requests.input, options.lines);
  };
  return run_requests(requests, format, open_input);
}

}  // namespace

Run add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  options->requests.command = "tandem generate";
  options->requests.bar = "Generating";
  app.option_defaults()->group("Input and output");
  options->requests.engine.add_model_argument(app);
  app.add_option("TEXT", options->texts, "Texts to read; - is standard input");
  app.add_option("--input", options->requests.input, "Read from a file; - is standard input")
      ->type_name("FILE");
  app.add_flag(
      "--lines", options->lines,
      "Take each line of the input as a text of its own, and write one line for it: an empty "
      "one where it fails, tabs between several sequences");
  app.add_flag(
      "--jsonl", options->requests.jsonl,
      "Read a JSON request from each line, and write a JSON result for it (docs/jsonl.md)");
  app.add_flag("--stream", options->requests.stream,
               "With --jsonl, write what is new of each sequence as it comes, and results as they "
               "end");
  options->requests.add(app);
  options->sampling.add(app);
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
