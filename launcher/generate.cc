// tandem generate: requests flow into the engine as they are read, results leave in input order.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <optional>

#include "launcher/command.h"
#include "launcher/input.h"
#include "launcher/options.h"
#include "launcher/progress.h"
#include "runtime/llm_engine.h"
#include "runtime/request_json.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

struct Options {
  EngineOptions engine;
  SamplingOptions sampling;
  std::string input;
  std::vector<std::string> texts;
  bool jsonl = false, lines = false;
};

std::unique_ptr<LLMEngine> load_engine(const EngineConfig& config) {
  ProgressBar bar("Loading");
  return std::make_unique<LLMEngine>(config,
                                     [&](size_t done, size_t total) { bar.update(done, total); });
}

// Requests in flight and the results that wait for their turn.
class Session {
 public:
  Session(LLMEngine& engine, bool jsonl, json defaults)
      : engine_(engine), jsonl_(jsonl), defaults_(std::move(defaults)) {}

  void submit(const Line& line) {
    json id;
    const uint64_t number = submitted_++;
    try {
      if (line.too_long) throw invalid_request("prompt", "the line is longer than 64 MiB");
      JsonRequest request;
      if (jsonl_) {
        const json parsed = parse_json_line(line.text);
        if (parsed.is_object() && parsed.contains("id")) id = parsed["id"];
        request = request_from_json(parsed);
      } else {
        request.prompt = line.text;
      }
      json params = defaults_;
      params.update(request.params);
      engine_.add_request(std::to_string(number), request.prompt, params);
      ids_.emplace(number, id);
    } catch (const InputError& e) {
      fail(number, e, id);
    }
  }

  void step() {
    for (const proto::RequestOutput& output : engine_.step()) {
      if (!output.finished()) continue;
      const uint64_t number = std::stoull(output.request_id());
      for (const auto& c : output.outputs()) tokens_ += static_cast<uint64_t>(c.token_ids_size());
      ++finished_;
      if (jsonl_) {
        done_[number] = dump_line(result_to_json(output, ids_.at(number), engine_.tokenizer()));
      } else {
        std::string& text = done_[number];
        for (const auto& c : output.outputs())
          text += (&c == &output.outputs(0) ? "" : "\n") + c.text();
      }
      ids_.erase(number);
    }
  }

  // Writes what is next in input order.
  void flush() {
    for (auto it = done_.find(written_); it != done_.end(); it = done_.find(++written_)) {
      if (jsonl_ || failed_lines_.count(written_) == 0) std::cout << it->second << "\n";
      done_.erase(it);
    }
    std::cout.flush();
  }

  uint64_t submitted() const { return submitted_; }
  uint64_t finished() const { return finished_; }
  uint64_t tokens() const { return tokens_; }
  uint64_t failed() const { return failed_lines_.size(); }
  size_t in_flight() const { return ids_.size(); }

 private:
  void fail(uint64_t number, const InputError& e, const json& id) {
    ++finished_;
    failed_lines_.insert({number, true});
    done_[number] = dump_line(error_to_json(e, id));
    if (!jsonl_)
      std::fprintf(stderr, "tandem: text %llu: %s\n", static_cast<unsigned long long>(number + 1),
                   e.what());
  }

  LLMEngine& engine_;
  bool jsonl_;
  json defaults_;
  std::map<uint64_t, json> ids_;          // in flight
  std::map<uint64_t, std::string> done_;  // results whose turn has not come
  std::map<uint64_t, bool> failed_lines_;
  uint64_t submitted_ = 0, finished_ = 0, written_ = 0, tokens_ = 0;
};

std::string rate(const Session& session, double seconds) {
  char text[96];
  std::snprintf(text, sizeof(text), "%llu/%llu requests, %llu tokens, %.0f tokens/s",
                static_cast<unsigned long long>(session.finished()),
                static_cast<unsigned long long>(session.submitted()),
                static_cast<unsigned long long>(session.tokens()),
                seconds > 0 ? static_cast<double>(session.tokens()) / seconds : 0.0);
  return text;
}

// Requests are taken from `next` while few are in flight, so that memory stays bounded on endless
// input.
template <class Next>
int run_session(LLMEngine& engine, Session& session, const Next& next, size_t max_in_flight) {
  ProgressBar bar("Generating");
  bool more = true;
  while (more || session.in_flight() > 0) {
    while (more && session.in_flight() < max_in_flight) {
      const bool idle = session.in_flight() == 0;
      if (idle) session.flush();
      const std::optional<Line> line = next(/*wait=*/idle, more);
      if (!line) break;
      session.submit(*line);
    }
    if (engine.has_unfinished_requests()) session.step();
    bar.update(session.finished(), session.submitted(), rate(session, bar.seconds()));
    session.flush();
  }
  bar.erase();
  if (isatty(2) == 1 && session.submitted() > 1)
    std::fprintf(stderr, "%s\n", rate(session, bar.seconds()).c_str());
  return session.failed() > 0 ? 1 : 0;
}

int run(const Options& options) {
  const EngineConfig config = options.engine.parse();
  std::vector<std::string> texts;
  std::unique_ptr<LineReader> reader;
  if (options.jsonl) {
    if (!options.texts.empty() && options.texts != std::vector<std::string>{"-"})
      throw invalid_request("TEXT", "--jsonl reads standard input or --input FILE");
    reader = std::make_unique<LineReader>(open_input(options.input.empty() ? "-" : options.input));
  } else {
    texts = read_texts(options.texts, options.input, options.lines);
  }
  const auto engine = load_engine(config);
  Session session(*engine, options.jsonl, options.sampling.params());
  const size_t max_in_flight = 4 * static_cast<size_t>(config.max_num_seqs);
  if (reader)
    return run_session(
        *engine, session,
        [&](bool wait, bool& more) {
          auto line = reader->next(wait);
          if (!line) more = !reader->at_end();
          return line;
        },
        max_in_flight);
  size_t at = 0;
  return run_session(
      *engine, session,
      [&](bool, bool& more) -> std::optional<Line> {
        if (at == texts.size()) {
          more = false;
          return std::nullopt;
        }
        return Line{std::move(texts[at++]), false};
      },
      max_in_flight);
}

}  // namespace

Run add_generate(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("TEXT", options->texts, "texts; - for standard input");
  app.add_option("--input", options->input, "read from a file (-: standard input)")
      ->type_name("FILE");
  app.add_flag("--lines", options->lines, "each line of the input is a text of its own");
  app.add_flag("--jsonl", options->jsonl,
               "one JSON request a line in, one JSON result a line out (docs/jsonl.md)");
  options->engine.add_model(app);
  options->engine.add_engine(app);
  options->sampling.add(app);
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
