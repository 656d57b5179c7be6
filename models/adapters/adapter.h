// An adapter's directory as PEFT saves it: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "models/adapters/adapter_config.h"
#include "parallel/layers/adapters.h"

namespace tandem {

class MappedFile;

// Modules are called as HuggingFace's class has them. A layer's scope may have the family's prefix
// in front or lack it (ModelFamily::base). One thread.
class Adapter final : public AdapterChanges {
 public:
  // Reads both files. Throws InputError naming the file, and the key or the tensor. A file may be
  // broken or of another kind. A tensor may lack its fellow. A rank may exceed max_rank, or differ
  // from the configuration's. base: the prefix, without its dot.
  static Adapter open(const std::filesystem::path& directory, const std::string& base,
                      int max_rank);

  const ModuleChange* find(const std::string& module) override;
  const AdapterConfig& config() const { return config_; }
  // By PEFT's names.
  const std::map<std::string, ModuleChange>& changes() const { return changes_; }
  size_t bytes() const;  // of the file

  // `modules`: those of a model's layers. Throws InputError, naming the module or the tensor, if
  // the adapter changes another module, or one of another shape, or lacks a change that its
  // configuration promises.
  void check_modules(std::span<const AdaptableModule> modules) const;

 private:
  void add(HostTensor tensor);
  void check(const std::string& module, ModuleChange& change) const;
  bool checks_bias(const std::string& module, const ModuleChange& change) const;
  void check_targets(const std::map<std::string, AdaptableModule>& known) const;
  std::string plain(const std::string& module) const;  // without the prefix

  AdapterConfig config_;
  std::string base_;  // with its dot
  std::string file_;
  std::shared_ptr<MappedFile> mapped_;
  std::map<std::string, ModuleChange> changes_;
  std::map<std::string, std::string> by_plain_name_;
};

}  // namespace tandem
