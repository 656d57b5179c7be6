// How the ranks of a worker group come to be, and how they end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/network/credentials.h"
#include "actors/network/process_limits.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem::actors {

// Where workers find their supervisor, and what lets them in.
struct WorkerEndpoint {
  std::string address;
  Credentials credentials;
};

// launch() and stop() are called from one thread of the cluster and must not block for long.
class GroupLauncher {
 public:
  // (replica, generation, how it ended: see tells_of_want()); from any thread.
  using Exited = std::function<void(int, uint64_t, const std::string&)>;

  virtual ~GroupLauncher() = default;
  // Once, before the first launch.
  virtual void open(const WorkerEndpoint& endpoint, Exited exited) = 0;
  // Starts `size` ranks that report to the endpoint as this generation. When all of them have
  // ended, whyever, `exited` is called, once.
  virtual void launch(int replica, uint64_t generation, int size) = 0;
  // Ends them by force. pids: of those ranks that run on this host and have said hello.
  // The last word on what a rank of that generation is told to load.
  virtual void prepare(int replica, proto::WorkerSetup& setup) {}
  virtual void stop(int replica, uint64_t generation, const std::vector<int64_t>& pids) = 0;
  // False: the ranks are started by someone else, once.
  virtual bool can_relaunch() const { return true; }
  // Seconds in which a rank that works says hello, from its launch on; nothing: who knows when they
  // will come.
  virtual std::optional<double> longest_hello() const { return std::nullopt; }
};

// Whether a group ended because it could not have threads, memory or descriptors: a rank said so by
// its status (127: its libraries could not be loaded), or it could not be forked.
inline bool tells_of_want(const std::string& how_it_ended) {
  return how_it_ended == "ended with status " + std::to_string(kWantsResources) ||
         how_it_ended == "ended with status 127" || how_it_ended.rfind("fork: ", 0) == 0;
}

}  // namespace tandem::actors
