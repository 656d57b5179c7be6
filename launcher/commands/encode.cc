// tandem encode: the encoder's last hidden states, or their mean, as JSON or .npy.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <utility>

#include "base/json.h"
#include "base/log/log.h"
#include "launcher/commands/command.h"
#include "launcher/commands/files/input.h"
#include "launcher/options.h"
#include "launcher/progress.h"
#include "models/family.h"
#include "models/load_model.h"
#include "runtime/execution/attention_choice.h"
#include "runtime/execution/encoder_runner.h"
#include "runtime/protocol/json/json_line.h"
#include "runtime/protocol/json/options_reader.h"
#include "runtime/protocol/json/prompt_reader.h"
#include "runtime/request/params/language_rules.h"
#include "runtime/request/params/params_resolver.h"
#include "runtime/request/prompt.h"
#include "runtime/request/request_json.h"
#include "text/tokenizer.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

struct EncodeOptions {
  EngineOptions engine;
  SamplingOptions languages;
  std::string input, output = "-", pooling = "mean", format = "json";
  std::vector<std::string> texts;
  bool lines = false, jsonl = false;
  int max_num_batched_tokens = 2048;
};

// One text's result: [d_model] or [tokens, d_model]; or why there is none.
struct Row {
  json id;
  Tensor values;
  std::optional<InputError> error;
};

json values_to_json(const Tensor& t) {
  if (t.rank() == 1) return std::vector<float>(t.data<float>(), t.data<float>() + t.size());
  json rows = json::array();
  for (int64_t i = 0; i < t.dim(0); ++i)
    rows.push_back(std::vector<float>(t.row<float>(i), t.row<float>(i) + t.dim(1)));
  return rows;
}

// NumPy's format 1.0: magic, version, header length, a Python literal, the data.
std::string to_npy(const std::vector<Row>& rows) {
  const auto any = std::find_if(rows.begin(), rows.end(), [](const Row& r) { return !r.error; });
  if (any == rows.end()) throw *rows.at(0).error;
  const bool stacked = any->values.rank() == 1;
  if (!stacked && rows.size() != 1)
    throw invalid_request("--format",
                          "npy holds the hidden states of one text, or the means of many");
  Shape shape = any->values.shape();
  if (stacked) shape.insert(shape.begin(), static_cast<int64_t>(rows.size()));
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (" +
                       std::to_string(shape[0]) + ", " + std::to_string(shape[1]) + "), }";
  constexpr size_t kPreamble = 10;
  while ((kPreamble + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 0xff);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  // A text that failed keeps its place.
  const std::vector<float> none(static_cast<size_t>(shape[1]), std::nanf(""));
  for (const Row& row : rows)
    for (int64_t i = 0; i < (stacked ? 1 : row.values.dim(0)); ++i)
      out.append(reinterpret_cast<const char*>(row.error ? none.data() : row.values.row<float>(i)),
                 none.size() * 4);
  return out;
}

std::string to_jsonl(const std::vector<Row>& rows) {
  std::string out;
  for (const Row& row : rows) {
    if (row.error) {
      out += dump_line(error_to_json(*row.error, row.id)) + "\n";
      continue;
    }
    const char* key = row.values.rank() == 1 ? "embedding" : "hidden_states";
    out += dump_line({{"id", row.id}, {key, values_to_json(row.values)}}) + "\n";
  }
  return out;
}

// A file appears whole or not at all.
void write_output(const std::string& file, const std::string& bytes) {
  if (file == "-") {
    std::cout.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    std::cout.flush();
    return;
  }
  const std::string partial = file + ".partial";
  std::ofstream out(partial, std::ios::binary);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out || std::rename(partial.c_str(), file.c_str()) != 0) {
    const std::string why = std::strerror(errno);
    std::remove(partial.c_str());
    throw invalid_request("--output", file + ": " + why);
  }
}

// What the texts become; a row for each, in which there are no values yet.
struct Inputs {
  std::vector<Row> rows;
  std::vector<EncoderIds> tokens;  // of those that have not failed
};

Inputs read_inputs(const EncodeOptions& options, const Tokenizer& tokenizer,
                   const ModelConfig& config) {
  Inputs inputs;
  const ParamsResolver resolver(config, config.vocab_size);
  const proto::GenerationOptions of_flags = read_options(options.languages.params());
  // `read` makes the request of a line, and its id as soon as it is known.
  const auto add = [&](const Line& line, json id, const auto& read) {
    Row row{std::move(id), {}, {}};
    try {
      if (line.too_long) throw invalid_request("prompt", "the line is longer than 64 MiB");
      const JsonRequest request = read(line.text, row.id);
      proto::GenerationOptions with = of_flags;
      with.set_allow_empty_prompt(true);
      if (request.options.has_src_lang()) with.set_src_lang(request.options.src_lang());
      if (request.options.has_tgt_lang()) with.set_tgt_lang(request.options.tgt_lang());
      if (request.options.has_task()) with.set_task(request.options.task());
      if (request.options.has_global_attention())
        *with.mutable_global_attention() = request.options.global_attention();
      *with.mutable_off() = request.options.off();
      with = with_target_language(request.prompt, with, tokenizer.languages(), resolver);
      const auto prepared = preprocess(request.prompt, with, &tokenizer, config, resolver);
      const auto& ids = prepared.inputs.encoder_prompt_token_ids();
      const auto& global = prepared.inputs.global_attention();
      inputs.tokens.push_back({{ids.begin(), ids.end()}, {global.begin(), global.end()}});
    } catch (const InputError& e) {
      report_failure(inputs.rows.size() + 1, e);
      row.error = e;
    }
    inputs.rows.push_back(std::move(row));
  };
  if (!options.jsonl) {
    RequestInput input = open_texts(options.texts, options.input, options.lines);
    for (bool more = true; more;)
      if (const auto line = input.next(/*wait=*/true, more))
        add(*line, inputs.rows.size(), [](const std::string& text, json&) {
          JsonRequest request;
          request.prompt = text_prompt(text);
          return request;
        });
  } else {
    LineReader reader(open_input(options.input.empty() ? "-" : options.input));
    while (const auto line = reader.next(/*wait=*/true))
      add(*line, json(), [](const std::string& text, json& id) {
        json parsed = parse_json_line(text);
        if (parsed.is_object() && parsed.contains("id")) id = parsed["id"];
        return request_from_json(parsed);
      });
  }
  if (inputs.rows.empty()) throw invalid_request("--input", "there is no text in it");
  return inputs;
}

// Before the work, whose result it is to hold.
void check_output(const std::string& file) {
  if (file == "-") return;
  const std::string partial = file + ".partial";
  if (std::filesystem::is_directory(file))
    throw invalid_request("--output", file + " is a directory");
  if (!std::ofstream(partial, std::ios::binary))
    throw invalid_request("--output", file + ": " + std::strerror(errno));
  std::remove(partial.c_str());
}

int run(EncodeOptions& options) {
  options.engine.settle_model(&options.texts);
  if (options.engine.model.empty())
    throw invalid_request("MODEL", "is missing: give it as the first argument, or with --model");
  if (options.lines && options.jsonl)
    throw invalid_request("--lines", "is for texts; each line of --jsonl is a request");
  if (options.pooling != "mean" && options.pooling != "none")
    throw invalid_request("--pooling", "\"" + options.pooling + "\" is not one of mean, none");
  if (options.format != "json" && options.format != "npy")
    throw invalid_request("--format", "\"" + options.format + "\" is not one of json, npy");
  if (options.format == "npy" && options.output == "-" && isatty(1) == 1)
    throw invalid_request("--output", "a .npy file is not for a terminal; give --output FILE");
  check_output(options.output);
  const EngineConfig engine = options.engine.parse_and_find_model();
  const ModelConfig config = ModelConfig::load(engine.loading().model());
  find_family(config);
  if (!limits_of(config).reads_ids())
    throw not_supported("--model",
                        "reads no texts or token ids; embeddings are to be had of `tandem generate "
                        "--jsonl`, with \"pooling\"");
  const auto tokenizer = load_tokenizer(engine.loading().model());
  Inputs inputs = read_inputs(options, *tokenizer, config);

  Checkpoint checkpoint = Checkpoint::open(engine.loading().model());
  const DType dtype = resolve_dtype(engine, config.checkpoint_dtype);
  const int threads = engine.loading().threads();
  const auto ctx = make_context(engine, dtype, threads > 0 ? threads : default_threads());
  const auto attention = make_attention(engine.loading(), *ctx);
  const AttentionScope scope(*ctx, attention.get());
  const auto comm = make_local_communicator();
  const auto model =
      load_model(config, checkpoint, {*ctx, *comm, dtype, resolve_quantization(engine)});
  for (const std::string& line : load_warnings(config, checkpoint)) log_warning("{}", line);
  const auto states = encode_sequences(*ctx, *model, inputs.tokens, options.max_num_batched_tokens);
  bool failed = false;
  auto state = states.begin();
  for (Row& row : inputs.rows) {
    if (row.error) {
      failed = true;
      continue;
    }
    row.values = *state;
    if (options.pooling == "mean") {
      const auto mean = mean_pool(*state);
      row.values = Tensor({state->dim(1)}, DType::kF32);
      std::memcpy(row.values.raw(), mean.data(), row.values.bytes());
    }
    ++state;
  }
  write_output(options.output,
               options.format == "npy" ? to_npy(inputs.rows) : to_jsonl(inputs.rows));
  return failed ? 1 : 0;
}

}  // namespace

Run add_encode(CLI::App& app) {
  auto options = std::make_shared<EncodeOptions>();
  app.option_defaults()->group("Input and output");
  options->engine.add_model_argument(app);
  app.add_option("TEXT", options->texts, "Texts to read; - is standard input");
  app.add_option("--input", options->input, "Read from a file; - is standard input")
      ->type_name("FILE");
  app.add_flag(
      "--lines", options->lines,
      "Take each line of the input as a text of its own, and write one line for it: an error "
      "where it fails (in a .npy file NaNs)");
  app.add_flag("--jsonl", options->jsonl, "Read {\"id\", \"prompt\"} from each line");
  options->languages.add_only(app, {"source-lang", "target-lang", "task"});
  app.add_option("--pooling", options->pooling,
                 "mean writes one vector for each text, none a vector for each token")
      ->capture_default_str();
  app.add_option("--format", options->format, "json writes a line for each text, npy float32")
      ->capture_default_str();
  app.add_option("--output", options->output, "File to write; - is standard output")
      ->type_name("FILE")
      ->capture_default_str();
  options->engine.add_model(app);
  app.get_option("--model")->required(false);
  app.add_option("--max-num-batched-tokens", options->max_num_batched_tokens,
                 "Compute at most that many tokens at once")
      ->capture_default_str();
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
