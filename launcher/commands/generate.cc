// tandem generate: texts or JSONL requests in, generated texts or JSONL results out.
#include <memory>
#include <utility>

#include "base/json.h"
#include "launcher/commands/command.h"
#include "launcher/commands/requests.h"
#include "launcher/speech/audio_request.h"
#include "runtime/protocol/json_line.h"
#include "runtime/protocol/options_reader.h"
#include "runtime/protocol/prompt_reader.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

struct GenerateOptions {
  RequestOptions requests;
  SamplingOptions sampling;
  std::vector<std::string> texts;
  bool lines = false;
};

class GenerateFormat final : public RequestFormat {
 public:
  GenerateFormat(bool jsonl, json defaults) : jsonl_(jsonl), defaults_(std::move(defaults)) {}

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

  std::string write(const proto::RequestOutput& output, const json& id,
                    const Tokenizer* tokenizer) const override {
    if (jsonl_) return dump_line(result_to_json(output, id, tokenizer));
    std::string text;
    for (const auto& c : output.outputs())
      text += (&c == &output.outputs(0) ? "" : "\n") + c.text();
    return text;
  }

 private:
  bool jsonl_;
  json defaults_;
};

int run(GenerateOptions& options) {
  if (options.requests.stream && !options.requests.jsonl)
    throw UsageError("--stream", "is for --jsonl");
  const GenerateFormat format(options.requests.jsonl, options.sampling.params());
  return run_requests(options.requests, format, [&] {
    if (options.requests.jsonl) return open_jsonl(options.requests, options.texts);
    return RequestInput{nullptr, read_texts(options.texts, options.requests.input, options.lines)};
  });
}

}  // namespace

Run add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  options->requests.command = "tandem generate";
  options->requests.bar = "Generating";
  app.option_defaults()->group("Input and output");
  app.add_option("TEXT", options->texts, "Texts to read; - is standard input");
  app.add_option("--input", options->requests.input, "Read from a file; - is standard input")
      ->type_name("FILE");
  app.add_flag("--lines", options->lines, "Take each line of the input as a text of its own");
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
