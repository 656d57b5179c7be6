// tandem tokenize: {"id", "text", "src_lang"} → {"id", "ids", "decoded", "decoded_skip_special"},
// or plain text.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>

#include "base/json.h"
#include "base/strings/utf8.h"
#include "launcher/commands/command.h"
#include "launcher/commands/files/input.h"
#include "launcher/options.h"
#include "models/family.h"
#include "runtime/protocol/json/json_line.h"
#include "runtime/request/request_json.h"
#include "text/tokenizer.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

struct TokenizeOptions {
  ModelOptions model;
  std::string input;
  std::string source_lang;  // empty: the checkpoint's
  std::vector<std::string> texts;
  bool jsonl = false, lines = false, no_special = false;
};

// source_language: empty for the checkpoint's.
json tokenize(const Tokenizer& tokenizer, const std::string& text,
              const std::string& source_language, bool add_special) {
  check_utf8(text, "text");
  const auto ids = source_language.empty()
                       ? tokenizer.encode(text, add_special)
                       : tokenizer.encode_from(source_language, text, add_special);
  return {{"ids", ids},
          {"decoded", tokenizer.decode(ids, false)},
          {"decoded_skip_special", tokenizer.decode(ids, true)}};
}

// source_language: of lines that name none.
json tokenize_line(const Tokenizer& tokenizer, const Line& line, std::string source_language,
                   bool add_special, bool& failed) {
  json id;
  try {
    if (line.too_long) throw invalid_request("text", "the line is longer than 64 MiB");
    const json request = parse_json_line(line.text);
    if (!request.is_object())
      throw InputError(ErrorKind::kInvalidRequest, "a line must be a JSON object");
    id = request.value("id", json());
    if (!request.contains("text") || !request["text"].is_string())
      throw invalid_request("text", "is missing or not a string");
    json result = {{"id", id}};
    for (const char* name : {"source_lang", "src_lang"}) {
      if (!request.contains(name)) continue;
      if (!request[name].is_string() || request[name].get<std::string>().empty())
        throw invalid_request(name, "is not the name of a language");
      source_language = request[name];
    }
    result.update(
        tokenize(tokenizer, request["text"].get<std::string>(), source_language, add_special));
    return result;
  } catch (const InputError& e) {
    failed = true;
    return error_to_json(e, id);
  }
}

// A line for each text; of one among several it is empty where it fails.
int tokenize_texts(const Tokenizer& tokenizer, const TokenizeOptions& options, RequestInput input) {
  const bool keep_places = options.lines || options.texts.size() > 1;
  bool failed = false, more = true;
  for (uint64_t number = 1; more; ++number) {
    const auto line = input.next(/*wait=*/true, more);
    if (!line) continue;
    try {
      if (line->too_long) throw invalid_request("text", "the line is longer than 64 MiB");
      std::cout << json_text(tokenize(tokenizer, line->text, options.source_lang,
                                      !options.no_special)["ids"])
                << "\n";
    } catch (const InputError& e) {
      failed = true;
      report_failure(number, e);
      if (keep_places) std::cout << "\n";
    }
  }
  return failed ? 1 : 0;
}

int run(TokenizeOptions& options) {
  options.model.settle_model(&options.texts);
  if (options.model.model.empty())
    throw invalid_request("MODEL", "is missing: give it as the first argument, or with --model");
  if (options.lines && options.jsonl)
    throw invalid_request("--lines", "is for texts; each line of --jsonl is a request");
  const auto tokenizer = load_tokenizer(options.model.find_model(hub::ModelFiles::kTokenizer));
  if (!options.jsonl)
    return tokenize_texts(*tokenizer, options,
                          open_texts(options.texts, options.input, options.lines));
  bool failed = false;
  if (!options.texts.empty() && options.texts != std::vector<std::string>{"-"})
    throw invalid_request("TEXT", "--jsonl reads standard input or --input FILE");
  LineReader reader(open_input(options.input.empty() ? "-" : options.input));
  while (const auto line = reader.next(/*wait=*/true))
    std::cout << dump_line(tokenize_line(*tokenizer, *line, options.source_lang,
                                         !options.no_special, failed))
              << "\n";
  return failed ? 1 : 0;
}

}  // namespace

Run add_tokenize(CLI::App& app) {
  auto options = std::make_shared<TokenizeOptions>();
  options->model.add_model_argument(app);
  options->model.add_model_flags(app, "--model");
  app.option_defaults()->group("Input and output");
  app.add_option("TEXT", options->texts, "Texts to read; - is standard input");
  app.add_option("--input", options->input, "Read from a file; - is standard input")
      ->type_name("FILE");
  app.add_flag(
      "--lines", options->lines,
      "Take each line of the input as a text of its own, and write one line for it: an empty "
      "one where it fails");
  app.add_flag(
      "--jsonl", options->jsonl,
      "Read {\"id\", \"text\", \"src_lang\"} from each line, and write a JSON result for it");
  app.add_option("--source-lang", options->source_lang,
                 "Name the language of texts whose line names none (src_lang)")
      ->type_name("NAME");
  app.add_flag("--no-special-tokens", options->no_special, "Leave out the model's BOS and EOS");
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
