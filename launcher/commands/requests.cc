// Requests flow in as they are read, results leave in input order (requests.h).
#include "launcher/commands/requests.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <optional>
#include <utility>

#include "actors/in_process_engine.h"
#include "base/json.h"
#include "client/tandem_client.h"
#include "launcher/cluster/prepare_host.h"
#include "launcher/command_requests.h"
#include "launcher/commands/command.h"
#include "launcher/help.h"
#include "launcher/progress.h"
#include "launcher/remote_engine.h"
#include "launcher/signals.h"
#include "runtime/engine/local_engine.h"
#include "runtime/request/request_error.h"

namespace tandem::launcher {
namespace {

using nlohmann::json;

// Times as many lines as are in flight may wait for the one before them.
constexpr size_t kMostUnwritten = 64;

// Requests in flight and the results that wait for their turn.
class Session {
 public:
  Session(EngineApi& engine, const RequestFormat& format, const RequestOptions& options)
      : requests_(engine, options.lora),
        format_(format),
        jsonl_(options.jsonl),
        stream_(options.stream),
        keep_places_(options.keep_places) {
    if (stream_)
      requests_.stream_to([this](uint64_t number, const proto::RequestChunk& chunk, auto) {
        if (chunk.outputs_size() == 0) return;
        std::cout << dump_line(chunk_to_json(chunk, ids_.at(number), number + 1)) << "\n";
      });
  }

  void submit(const Line& line) {
    json id;
    const uint64_t number = submitted_++;
    try {
      if (line.too_long) throw invalid_request("prompt", "the line is longer than 64 MiB");
      JsonRequest request = format_.read(line.text, id);
      requests_.submit(number, std::move(request));
      ids_.emplace(number, id);
    } catch (const InputError& e) {
      fail(number, e, id);
    }
  }

  void step() {
    for (const auto& [number, output, error, seconds] : requests_.poll()) {
      if (error) {
        fail(number, *error, ids_.at(number));
        ids_.erase(number);
        continue;
      }
      for (const auto& c : output.outputs()) tokens_ += static_cast<uint64_t>(c.token_ids_size());
      ++finished_;
      try {
        done_[number] = format_.write(output, ids_.at(number));
      } catch (const client::ClientError& e) {
        --finished_;
        fail(number, InputError(ErrorKind::kInternal, e.what(), e.param()), ids_.at(number));
      } catch (const InputError& e) {
        --finished_;
        fail(number, e, ids_.at(number));
      }
      ids_.erase(number);
    }
  }

  // Writes what is next in input order; of a stream, all that there is.
  void flush() {
    for (auto it = next(); it != done_.end(); it = next()) {
      if (it->second) std::cout << *it->second << "\n";
      done_.erase(it);
      ++written_;
    }
    std::cout.flush();
  }

  uint64_t submitted() const { return submitted_; }
  uint64_t finished() const { return finished_; }
  uint64_t tokens() const { return tokens_; }
  uint64_t failed() const { return failed_; }
  size_t in_flight() const { return ids_.size(); }
  // With results that wait for one before them.
  size_t unwritten() const { return ids_.size() + done_.size(); }

 private:
  std::map<uint64_t, std::optional<std::string>>::iterator next() {
    return stream_ ? done_.begin() : done_.find(written_);
  }
  void fail(uint64_t number, const InputError& e, const json& id) {
    ++finished_;
    ++failed_;
    std::optional<std::string>& line = done_[number];
    if (jsonl_)
      line = dump_line(error_to_json(e, id));
    else if (keep_places_)
      line = "";
    if (!jsonl_ && !format_.is_told(id)) report_failure(number + 1, e, format_.name_of(id));
    if (auto text = format_.fail(id)) line = std::move(text);
  }

  CommandRequests requests_;
  const RequestFormat& format_;
  bool jsonl_, stream_, keep_places_;
  std::map<uint64_t, json> ids_;  // in flight
  // Lines whose turn has not come; nothing: there is none for it.
  std::map<uint64_t, std::optional<std::string>> done_;
  uint64_t submitted_ = 0, finished_ = 0, written_ = 0, tokens_ = 0, failed_ = 0;
};

// total: of requests; 0: nobody knows.
std::string rate(const Session& session, uint64_t total, double seconds) {
  char text[96];
  std::snprintf(text, sizeof(text), "%llu/%llu requests, %llu tokens, %.0f tokens/s",
                static_cast<unsigned long long>(session.finished()),
                static_cast<unsigned long long>(std::max(total, session.submitted())),
                static_cast<unsigned long long>(session.tokens()),
                seconds > 0 ? static_cast<double>(session.tokens()) / seconds : 0.0);
  return text;
}

// Requests are taken from `next` while few are in flight, so that memory stays bounded on endless
// input. total: of requests; 0: the end of the input says.
template <class Next>
int run_session(Session& session, const std::string& title, const Next& next, size_t max_in_flight,
                uint64_t total) {
  ProgressBar bar(title);
  bool more = true;
  while ((more || session.in_flight() > 0) && std::cout) {  // or nobody reads what comes out
    while (more && session.in_flight() < max_in_flight &&
           session.unwritten() < kMostUnwritten * max_in_flight) {
      const bool idle = session.in_flight() == 0;
      if (idle) session.flush();
      const std::optional<Line> line = next(/*wait=*/idle, more);
      if (!line) break;
      session.submit(*line);
    }
    if (session.in_flight() > 0) session.step();
    if (!more) total = session.submitted();
    bar.update(session.finished(), total, rate(session, total, bar.seconds()));
    session.flush();
  }
  bar.erase();
  if (isatty(2) == 1 && session.submitted() > 1)
    std::fprintf(stderr, "%s\n", rate(session, total, bar.seconds()).c_str());
  return session.failed() > 0 ? 1 : 0;
}

int run_with(EngineApi& engine, const RequestOptions& options, const RequestFormat& format,
             RequestInput input) {
  Session session(engine, format, options);
  const size_t max_in_flight =
      options.ahead * static_cast<size_t>(options.engine.config.scheduling().max_num_seqs());
  return run_session(
      session, options.bar, [&](bool wait, bool& more) { return input.next(wait, more); },
      max_in_flight, input.texts.size());
}

// In a cluster of this command's own; gone with it, however it ends.
int run_in_cluster(const RequestOptions& options, MpiSession* job,
                   const std::function<int(EngineApi&)>& work) {
  options.cluster.log.apply("engine");
  EngineConfig engine;
  try {
    const SignalGuard guard([] {});  // they are caught, and a download takes its time
    engine = options.engine.parse_and_find_model();
    prepare_host(options.cluster, engine, /*threads=*/0);
  } catch (...) {
    release_ranks(job);
    throw;
  }
  const auto profile = options.cluster.profile.start("");
  const auto cluster = start_cluster(options.cluster, engine, job);
  std::vector<std::string> parts;  // of the profile
  if (job == nullptr) parts = options.cluster.profiled_parts();
  const SignalGuard guard([&] { cluster->stop(); });
  wait_until_up(*cluster, [] { return false; });
  actors::InProcessEngine api(*cluster);
  const int status = work(api);
  api.close();
  if (profile && job == nullptr) profile->wait_for_ranks(parts);
  cluster->stop();
  if (profile) profile->finish();
  return status;
}

std::unique_ptr<EngineApi> connect(const RequestOptions& options) {
  client::ClientOptions connection;
  connection.address = options.address;
  connection.access_file = options.access_file;
  connection.name = options.command;
  connection.retry = false;  // a person waits, who can ask again
  try {
    return std::make_unique<RemoteEngine>(client::Client::connect(connection));
  } catch (const client::ClientError& e) {
    // An address that is none is the user's to mend, whoever listens there.
    const bool is_wrong = kind_named(e.type()) == ErrorKind::kInvalidRequest;
    throw InputError(is_wrong ? ErrorKind::kInvalidRequest : ErrorKind::kUnavailable, e.what(),
                     "--connect");
  }
}

std::unique_ptr<EngineApi> load(const RequestOptions& options) {
  const EngineConfig config = options.engine.parse_and_find_model();
  ProgressBar bar("Loading");
  return std::make_unique<LocalEngine>(config,
                                       [&](size_t done, size_t total) { bar.update(done, total); });
}

// In this process, or at a server.
int run_alone(const RequestOptions& options, const std::function<int(EngineApi&)>& work) {
  options.cluster.log.apply("engine");
  const auto profile = options.cluster.profile.start("", ProfileFile::When::kAtEnd);
  std::unique_ptr<EngineApi> engine = options.is_remote() ? connect(options) : load(options);
  const int status = work(*engine);
  engine.reset();
  if (profile) profile->finish();
  return status;
}

}  // namespace

void RequestOptions::add(CLI::App& app) {
  engine.add_model(app);
  app.get_option("--model")->required(false);
  {
    const Heading heading(app, "Server");
    app.add_option("--connect", address,
                   "Compute at a server, at its client port (`tandem serve --client-port`)")
        ->type_name("HOST:PORT");
    app.add_option("--access-file", access_file,
                   "File that lets this client in; without it, the one that a server on this host "
                   "wrote for the port")
        ->type_name("FILE");
  }
  engine.add_engine(app);
  {
    const Heading heading(app, "Engine");
    app.add_option("--lora", lora,
                   "The adapter of requests that name none: a name of --lora-modules, or one that "
                   "the server knows")
        ->type_name("NAME");
  }
  cluster.add(app);
}

RequestInput open_jsonl(const RequestOptions& options, const std::vector<std::string>& texts) {
  if (!texts.empty() && texts != std::vector<std::string>{"-"})
    throw invalid_request("TEXT", "--jsonl reads standard input or --input FILE");
  return {std::make_unique<LineReader>(open_input(options.input.empty() ? "-" : options.input)),
          {}};
}

int run_on_engine(RequestOptions& options, const std::function<void()>& prepare,
                  const std::function<int(EngineApi&)>& work) {
  const bool remote = options.is_remote();
  if (remote && !options.engine.model.empty())
    throw invalid_request("--model", "the server has one; leave it out with --connect");
  if (!remote && options.engine.model.empty())
    throw invalid_request("MODEL",
                          "is missing: give it as the first argument, or with --model (or "
                          "--connect, for a server)");
  if (remote && !options.cluster.profile.file.empty())
    throw invalid_request("--profile",
                          "the server computes, and may write one: tandem serve --profile");
  std::unique_ptr<MpiSession> job;
  if (!remote && MpiSession::launched_by_mpi()) {
    catch_signals();
    job = join_outer_job();
    if (job && job->rank() != 0) return serve_as_rank(options.cluster, *job);
  }
  const bool cluster = !remote && (job != nullptr || options.cluster.wants_cluster());
  if (cluster) catch_signals();
  try {
    prepare();
  } catch (const InputError&) {
    release_ranks(job.get());
    throw;
  }
  if (!cluster) return run_alone(options, work);
  return run_in_cluster(options, job.get(), work);
}

int run_requests(RequestOptions& options, const RequestFormat& format,
                 const std::function<RequestInput()>& open_input) {
  RequestInput input;
  const auto open = [&] { input = open_input(); };
  const auto work = [&](EngineApi& engine) {
    return run_with(engine, options, format, std::move(input));
  };
  return run_on_engine(options, open, work);
}

}  // namespace tandem::launcher
