// tandem encode: the encoder's last hidden states, or their mean, as JSON or .npy.
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "base/json.h"
#include "launcher/commands/command.h"
#include "launcher/commands/input.h"
#include "launcher/options.h"
#include "launcher/progress.h"
#include "models/family.h"
#include "models/load_model.h"
#include "runtime/execution/encoder_runner.h"
#include "runtime/protocol/json_line.h"
#include "runtime/protocol/options_reader.h"
#include "runtime/protocol/prompt_reader.h"
#include "runtime/request/language_rules.h"
#include "runtime/request/params_resolver.h"
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

// One text's result: [d_model] or [tokens, d_model].
struct Row {
  json id;
  Tensor values;
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
  const bool stacked = rows[0].values.rank() == 1;
  if (!stacked && rows.size() != 1)
    throw invalid_request("--format",
                          "npy holds the hidden states of one text, or the means of many");
  Shape shape = rows[0].values.shape();
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
  for (const Row& row : rows)
    for (int64_t i = 0; i < (stacked ? 1 : row.values.dim(0)); ++i)
      out.append(reinterpret_cast<const char*>(row.values.row<float>(i)),
                 static_cast<size_t>(shape[1]) * 4);
  return out;
}

std::string to_jsonl(const std::vector<Row>& rows) {
  std::string out;
  for (const Row& row : rows) {
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

struct Inputs {
  std::vector<json> ids;
  std::vector<EncoderIds> tokens;
};

Inputs read_inputs(const EncodeOptions& options, const Tokenizer& tokenizer,
                   const ModelConfig& config) {
  Inputs inputs;
  const ParamsResolver resolver(config, config.vocab_size);
  const proto::GenerationOptions of_flags = read_options(options.languages.params());
  const auto add = [&](const JsonRequest& request, const std::string& where) {
    try {
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
      throw InputError(e.kind(), where + ": " + e.what(), e.param());
    }
    inputs.ids.push_back(request.id);
  };
  if (!options.jsonl) {
    for (const std::string& text : read_texts(options.texts, options.input, options.lines))
      add({inputs.ids.size(), text_prompt(text), {}},
          "text " + std::to_string(inputs.ids.size() + 1));
    return inputs;
  }
  LineReader reader(open_input(options.input.empty() ? "-" : options.input));
  while (const auto line = reader.next(/*wait=*/true)) {
    const std::string where = "line " + std::to_string(inputs.ids.size() + 1);
    JsonRequest request;
    try {
      if (line->too_long) throw invalid_request("prompt", "the line is longer than 64 MiB");
      request = request_from_json(parse_json_line(line->text));
    } catch (const InputError& e) {
      throw InputError(e.kind(), where + ": " + e.what(), e.param());
    }
    add(request, where);
  }
  if (inputs.tokens.empty()) throw invalid_request("--input", "there is no request in it");
  return inputs;
}

int run(const EncodeOptions& options) {
  if (options.pooling != "mean" && options.pooling != "none")
    throw invalid_request("--pooling", "\"" + options.pooling + "\" is not one of mean, none");
  if (options.format != "json" && options.format != "npy")
    throw invalid_request("--format", "\"" + options.format + "\" is not one of json, npy");
  if (options.format == "npy" && options.output == "-" && isatty(1) == 1)
    throw invalid_request("--output", "a .npy file is not for a terminal; give --output FILE");
  const EngineConfig engine = options.engine.parse_and_find_model();
  const ModelConfig config = ModelConfig::load(engine.model);
  find_family(config);
  if (limits_of(config).frames)
    throw not_supported("--model",
                        "reads no texts or token ids; embeddings are to be had of `tandem generate "
                        "--jsonl`, with \"pooling\"");
  const auto tokenizer = load_tokenizer(engine.model);
  const Inputs inputs = read_inputs(options, *tokenizer, config);

  Checkpoint checkpoint = Checkpoint::open(engine.model);
  const DType dtype = resolve_dtype(engine, config.checkpoint_dtype);
  const auto ctx = make_context(engine, dtype, engine.threads ? engine.threads : default_threads());
  const auto comm = make_local_communicator();
  const auto model = load_model(config, checkpoint, {*ctx, *comm, dtype, engine.quantization});
  for (const std::string& line : load_warnings(config, checkpoint)) spdlog::warn("{}", line);
  std::vector<Row> rows;
  const auto states = encode_sequences(*ctx, *model, inputs.tokens, options.max_num_batched_tokens);
  for (size_t i = 0; i < states.size(); ++i) {
    Tensor values = states[i];
    if (options.pooling == "mean") {
      const auto mean = mean_pool(states[i]);
      values = Tensor({states[i].dim(1)}, DType::kF32);
      std::memcpy(values.raw(), mean.data(), values.bytes());
    }
    rows.push_back({inputs.ids[i], values});
  }
  write_output(options.output, options.format == "npy" ? to_npy(rows) : to_jsonl(rows));
  return 0;
}

}  // namespace

Run add_encode(CLI::App& app) {
  auto options = std::make_shared<EncodeOptions>();
  app.option_defaults()->group("Input and output");
  app.add_option("TEXT", options->texts, "Texts to read; - is standard input");
  app.add_option("--input", options->input, "Read from a file; - is standard input")
      ->type_name("FILE");
  app.add_flag("--lines", options->lines, "Take each line of the input as a text of its own");
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
  app.add_option("--max-num-batched-tokens", options->max_num_batched_tokens,
                 "Compute at most that many tokens at once")
      ->capture_default_str();
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
