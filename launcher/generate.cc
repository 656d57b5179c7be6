// tandem generate: requests flow into the engine as they are read, results leave in input order.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <map>
#include <optional>

#include "client/local/cluster_client.h"
#include "launcher/backend.h"
#include "launcher/cluster_options.h"
#include "launcher/command.h"
#include "launcher/input.h"
#include "launcher/options.h"
#include "launcher/progress.h"
#include "launcher/signals.h"
#include "runtime/request_json.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

struct Options {
  EngineOptions engine;
  SamplingOptions sampling;
  ClusterOptions cluster;
  std::string address, access_file;
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
  Session(Backend& backend, bool jsonl, json defaults)
      : backend_(backend), jsonl_(jsonl), defaults_(std::move(defaults)) {}

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
      backend_.submit(number, request.prompt, params, request.priority);
      ids_.emplace(number, id);
    } catch (const InputError& e) {
      fail(number, e, id);
    }
  }

  void step() {
    for (const auto& [number, output, error] : backend_.poll()) {
      if (error) {
        fail(number, *error, ids_.at(number));
        ids_.erase(number);
        continue;
      }
      for (const auto& c : output.outputs()) tokens_ += static_cast<uint64_t>(c.token_ids_size());
      ++finished_;
      if (jsonl_) {
        done_[number] = dump_line(result_to_json(output, ids_.at(number), backend_.tokenizer()));
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

  Backend& backend_;
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
int run_session(Session& session, const Next& next, size_t max_in_flight) {
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
    if (session.in_flight() > 0) session.step();
    bar.update(session.finished(), session.submitted(), rate(session, bar.seconds()));
    session.flush();
  }
  bar.erase();
  if (isatty(2) == 1 && session.submitted() > 1)
    std::fprintf(stderr, "%s\n", rate(session, bar.seconds()).c_str());
  return session.failed() > 0 ? 1 : 0;
}

int run_with(Backend& backend, const Options& options, LineReader* reader,
             std::vector<std::string> texts) {
  Session session(backend, options.jsonl, options.sampling.params());
  const size_t max_in_flight = 4 * static_cast<size_t>(options.engine.config.max_num_seqs);
  if (reader != nullptr)
    return run_session(
        session,
        [&](bool wait, bool& more) {
          auto line = reader->next(wait);
          if (!line) more = !reader->at_end();
          return line;
        },
        max_in_flight);
  size_t at = 0;
  return run_session(
      session,
      [&](bool, bool& more) -> std::optional<Line> {
        if (at == texts.size()) {
          more = false;
          return std::nullopt;
        }
        return Line{std::move(texts[at++]), false};
      },
      max_in_flight);
}

// In a cluster of this command's own; gone with it, however it ends.
int run_in_cluster(const Options& options, MpiSession* job, LineReader* reader,
                   std::vector<std::string> texts) {
  options.cluster.log.apply("engine");
  const auto cluster = start_cluster(options.cluster, options.engine.parse(), job);
  const SignalGuard guard([&] { cluster->stop(); });
  wait_until_up(*cluster, [] { return false; });
  int status = 0;
  {
    const auto backend = make_client_backend(client::connect_to(*cluster, "tandem generate"));
    status = run_with(*backend, options, reader, std::move(texts));
  }
  cluster->stop();
  return status;
}

int run(Options& options) {
  const bool remote = !options.address.empty() || !options.access_file.empty();
  if (remote != options.engine.model.empty())
    throw UsageError("--model", remote ? "the server has one; leave it out with --connect"
                                       : "is missing (or --connect, for a server)");
  std::unique_ptr<MpiSession> job;
  if (!remote && MpiSession::launched_by_mpi()) {
    block_signals();
    job = join_outer_job();
    if (job && job->rank() != 0) return serve_as_rank(options.cluster, *job);
  }
  std::vector<std::string> texts;
  std::unique_ptr<LineReader> reader;
  const bool cluster = !remote && (job != nullptr || options.cluster.wants_cluster());
  if (cluster) block_signals();
  try {
    if (options.jsonl) {
      if (!options.texts.empty() && options.texts != std::vector<std::string>{"-"})
        throw invalid_request("TEXT", "--jsonl reads standard input or --input FILE");
      reader =
          std::make_unique<LineReader>(open_input(options.input.empty() ? "-" : options.input));
    } else {
      texts = read_texts(options.texts, options.input, options.lines);
    }
  } catch (const InputError&) {
    release_ranks(job.get());
    throw;
  }
  if (cluster) return run_in_cluster(options, job.get(), reader.get(), std::move(texts));
  std::unique_ptr<Backend> backend;
  if (remote) {
    client::ClientOptions connection;
    connection.address = options.address;
    connection.access_file = options.access_file;
    connection.name = "tandem generate";
    try {
      backend = make_client_backend(client::Client::connect(connection));
    } catch (const client::ClientError& e) {
      throw InputError(ErrorKind::kUnavailable, e.what(), "--connect");
    }
  } else {
    backend = make_local_backend(load_engine(options.engine.parse()));
  }
  return run_with(*backend, options, reader.get(), std::move(texts));
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
  app.get_option("--model")->required(false);
  app.add_option("--connect", options->address, "generate at a server: host:port (tandem serve)");
  app.add_option("--access-file", options->access_file,
                 "what lets this client in; default: what a server on this host wrote")
      ->type_name("FILE");
  options->engine.add_engine(app);
  options->cluster.add(app);
  options->sampling.add(app);
  return [options] { return run(*options); };
}

}  // namespace tandem::launcher
