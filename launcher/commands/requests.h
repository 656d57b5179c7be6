// Shared by the commands that send requests. Requests are computed in this process, in a cluster or
// at a server. Input is taken as it is read, and results come in the order of the input.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/cli.h"
#include "launcher/cluster/cluster_options.h"
#include "launcher/commands/files/input.h"
#include "launcher/options.h"
#include "runtime/engine/engine_api.h"
#include "runtime/request/request_json.h"

namespace tandem::launcher {

// What one command makes of its input, and of the results.
class RequestFormat {
 public:
  virtual ~RequestFormat() = default;
  // The request of a line, or of a text. Sets `id` as soon as it is known: errors carry it. Throws
  // InputError.
  virtual JsonRequest read(const std::string& line, nlohmann::json& id) const = 0;
  // The line of a result for standard output; nothing: it has gone elsewhere. Throws InputError.
  virtual std::optional<std::string> write(const proto::RequestOutput& output,
                                           const nlohmann::json& id) const = 0;
  // The input that errors name; empty: its number.
  virtual std::string name_of(const nlohmann::json& id) const { return {}; }
  // Whether a failure of the same input has been reported: this one is not.
  virtual bool is_told(const nlohmann::json& id) const { return false; }
  // The request has failed, which has been reported. What is for standard output all the same.
  virtual std::optional<std::string> fail(const nlohmann::json& id) const { return std::nullopt; }
};

struct RequestOptions {
  std::string command;  // "tandem generate", for the server's log
  std::string bar;      // title of the progress bar
  EngineOptions engine;
  ClusterOptions cluster;
  std::string address, access_file, input;
  std::string lora;  // the adapter of requests that name none; empty: the model
  bool jsonl = false, stream = false;
  bool keep_places = false;  // what fails is an empty line, so that lines stand for their texts
  size_t ahead = 4;          // times as many requests are in flight as are computed at once

  // All flags but those that say what the input is, and --stream.
  void add(CLI::App& app);
  // See ModelOptions::settle_model(): with --connect the server has the model.
  void settle_model(std::vector<std::string>* rest = nullptr) {
    engine.settle_model(rest, is_remote());
  }
  bool is_remote() const { return !address.empty() || !access_file.empty(); }
};

// Gives `work` what the flags ask for: an engine in this process, a cluster of this command's own,
// or a server. `prepare` is called before, when it is known that this process is the one that
// works. Returns the exit status.
int run_on_engine(RequestOptions& options, const std::function<void()>& prepare,
                  const std::function<int(EngineApi&)>& work);

// Returns the exit status. `open_input` is called when it is known that this process is the one
// that reads.
int run_requests(RequestOptions& options, const RequestFormat& format,
                 const std::function<RequestInput()>& open_input);
// The input of --jsonl; texts: of the command line, which it does not take.
RequestInput open_jsonl(const RequestOptions& options, const std::vector<std::string>& texts);

}  // namespace tandem::launcher
