// The adapters that requests may name. Usable from any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "parallel/layers/adapters.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// What a worker says of its model, both ways.
void tell_modules(const std::vector<AdaptableModule>& modules, proto::WorkerLoaded& out);
std::vector<AdaptableModule> modules_of(const proto::WorkerLoaded& worker);

// Each adapter has a number, which no later one of that name gets: what is cached is its alone.
class AdapterNames {
 public:
  // Those of the start have the numbers 1, 2, … in their order, as with workers
  // (runtime/execution/worker.cc). base: ModelFamily::base.
  AdapterNames(const proto::AdapterConfig& config, std::string base);

  bool has(const std::string& name) const;
  // Throws InputError (lora), naming those that there are.
  proto::Adapter find(const std::string& name) const;
  std::vector<proto::Adapter> list() const;  // by name

  // What a worker has loaded: the modules that adapters may change.
  void worker_loaded(const proto::WorkerLoaded& worker);
  // While the engine serves, if the configuration allows it. load() reads and checks the adapter;
  // workers read it once more when a request needs it. Requests under way keep what is unloaded.
  // Throw InputError: not allowed, a name that is taken or that there is not, a broken adapter.
  void load(const std::string& name, const std::string& path);
  void unload(const std::string& name);

 private:
  void check_allowed() const;
  void add(const std::string& name, const std::string& path) REQUIRES(mutex_);

  const std::string base_;
  const bool may_change_;
  const int max_rank_;
  mutable Mutex mutex_;
  std::map<std::string, proto::Adapter> adapters_ GUARDED_BY(mutex_);
  std::vector<AdaptableModule> modules_ GUARDED_BY(mutex_);
  uint64_t last_id_ GUARDED_BY(mutex_) = 0;
};

}  // namespace tandem
