#include "runtime/request/adapter_names.h"

#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/strings/nearest_name.h"
#include "base/strings/printable.h"
#include "models/adapters/adapter.h"

namespace tandem {

void tell_modules(const std::vector<AdaptableModule>& modules, proto::WorkerLoaded& out) {
  for (const AdaptableModule& module : modules) {
    proto::AdaptableModule& said = *out.add_adaptable_modules();
    said.set_name(module.name);
    said.set_rows(module.rows);
    said.set_columns(module.columns);
    said.set_table(module.table);
  }
}

std::vector<AdaptableModule> modules_of(const proto::WorkerLoaded& worker) {
  std::vector<AdaptableModule> out;
  for (const proto::AdaptableModule& module : worker.adaptable_modules())
    out.push_back({module.name(), module.rows(), module.columns(), module.table()});
  return out;
}

AdapterNames::AdapterNames(const proto::AdapterConfig& config, std::string base)
    : base_(std::move(base)),
      may_change_(config.allow_runtime_lora_updating()),
      max_rank_(config.max_lora_rank()) {
  const MutexLock lock(mutex_);
  for (const proto::AdapterModule& module : config.modules()) add(module.name(), module.path());
}

bool AdapterNames::has(const std::string& name) const {
  const MutexLock lock(mutex_);
  return adapters_.contains(name);
}

proto::Adapter AdapterNames::find(const std::string& name) const {
  const MutexLock lock(mutex_);
  const auto it = adapters_.find(name);
  if (it != adapters_.end()) return it->second;
  if (adapters_.empty())
    throw invalid_request("lora", "no adapter is called " + in_quotes(name) +
                                      "; the engine was started without --lora-modules");
  std::string names;
  std::vector<std::string> all;
  for (const auto& [other, adapter] : adapters_) {
    all.push_back(other);
    names += (names.empty() ? "" : ", ") + printable(other);
  }
  throw invalid_request("lora", "no adapter is called " + in_quotes(name) + suggestion(name, all) +
                                    "; there are " + names);
}

std::vector<proto::Adapter> AdapterNames::list() const {
  const MutexLock lock(mutex_);
  std::vector<proto::Adapter> out;
  for (const auto& [name, adapter] : adapters_) out.push_back(adapter);
  return out;
}

void AdapterNames::worker_loaded(const proto::WorkerLoaded& worker) {
  const MutexLock lock(mutex_);
  if (!modules_.empty()) return;
  modules_ = modules_of(worker);
}

void AdapterNames::check_allowed() const {
  if (!may_change_)
    throw not_supported("lora_name",
                        "adapters are loaded and unloaded only by a server that was started with "
                        "--allow-runtime-lora-updating");
}

void AdapterNames::add(const std::string& name, const std::string& path) {
  proto::Adapter& adapter = adapters_[name];
  adapter.set_name(name);
  adapter.set_path(path);
  adapter.set_id(++last_id_);
}

void AdapterNames::load(const std::string& name, const std::string& path) {
  check_allowed();
  if (name.empty()) throw invalid_request("lora_name", "is empty");
  if (path.empty()) throw invalid_request("lora_path", "is empty");
  std::vector<AdaptableModule> modules;
  {
    const MutexLock lock(mutex_);
    if (adapters_.contains(name))
      throw invalid_request("lora_name", in_quotes(name) + " is loaded already; unload it first");
    modules = modules_;
  }
  if (modules.empty())
    throw InputError(ErrorKind::kUnavailable, "lora_name: the model is not loaded yet");
  const std::string directory = std::filesystem::absolute(path).lexically_normal().string();
  try {
    Adapter::open(directory, base_, max_rank_).check_modules(modules);
  } catch (const InputError& error) {
    // The client's fault, not the model's.
    throw InputError(ErrorKind::kInvalidRequest,
                     "lora_path: adapter " + in_quotes(name) + ": " + error.what(), "lora_path");
  }
  const MutexLock lock(mutex_);
  if (adapters_.contains(name))
    throw invalid_request("lora_name", in_quotes(name) + " is loaded already; unload it first");
  add(name, directory);
}

void AdapterNames::unload(const std::string& name) {
  check_allowed();
  const MutexLock lock(mutex_);
  if (adapters_.erase(name) == 0)
    throw InputError(ErrorKind::kNotFound, "lora_name: no adapter is called " + in_quotes(name),
                     "lora_name");
}

}  // namespace tandem
