#include "launcher/commands/head_options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "runtime/protocol/json/json_line.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/request/heads/head_json.h"

namespace tandem::launcher {

using nlohmann::json;

void HeadOptions::add_input(CLI::App& app, const char* command, const char* bar,
                            const char* of_texts, const char* of_jsonl) {
  requests.command = command;
  requests.bar = bar;
  app.option_defaults()->group("Input and output");
  requests.engine.add_model_argument(app);
  app.add_option("TEXT", texts, of_texts);
  app.add_option("--input", requests.input, "Read from a file; - is standard input")
      ->type_name("FILE");
  app.add_flag("--lines", lines, "Take each line of the input as a text of its own");
  app.add_flag("--jsonl", requests.jsonl, of_jsonl);
  languages.add_only(app, {"source-lang", "task"});
  app.add_option("--truncate-prompt-tokens", truncate,
                 "Cut a longer text to that many tokens, of a pair the longer one first; -1 cuts "
                 "it to what the model takes");
}

void HeadOptions::settle() {
  requests.settle_model(&texts);
  if (lines && requests.jsonl)
    throw invalid_request("--lines", "is for texts; each line of --jsonl is a request");
}

json HeadOptions::params() const {
  json out = languages.params();
  if (truncate) out["truncate_prompt_tokens"] = *truncate;
  return out;
}

RequestInput HeadOptions::open() const {
  if (requests.jsonl) return open_jsonl(requests, texts);
  if (requests.engine.first_is_model && texts.empty() && requests.input.empty())
    throw invalid_request("TEXT",
                          "is missing: the first argument, \"" + requests.engine.model +
                              "\", is the model; behind it come texts, --input FILE, or - for "
                              "standard input");
  return open_texts(texts, requests.input, lines);
}

JsonRequest HeadFormat::read(const std::string& line, json& id) const {
  if (!options_.requests.jsonl) {
    id = next_++;
    JsonRequest request;
    request.prompt = head_prompt(line, second(), options_.pooling);
    request.options = read_options(options_.params());
    return request;
  }
  const json parsed = parse_json_line(line);
  if (parsed.is_object() && parsed.contains("id")) id = parsed["id"];
  return head_request_from_json(parsed, options_.pooling, options_.params());
}

std::optional<std::string> HeadFormat::write(const proto::RequestOutput& output,
                                             const json& id) const {
  return dump_line(to_json_(output, id));
}

}  // namespace tandem::launcher
