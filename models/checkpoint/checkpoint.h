// The weights of a checkpoint directory as it was downloaded: model.safetensors, a sharded
// model.safetensors.index.json, or pytorch_model.bin. Memory-mapped, read-only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "parallel/layers/weights.h"

namespace tandem {

class MappedFile;

class Checkpoint final : public WeightSource {
 public:
  // Throws InputError naming the file (and tensor) for anything missing, truncated or inconsistent.
  static Checkpoint open(const std::filesystem::path& directory);

  const HostTensor* find(const std::string& name) override;
  void skip(const std::string& beginning) override;
  std::string location() const override { return directory_.string(); }

  const std::map<std::string, HostTensor>& tensors() const { return tensors_; }
  const std::vector<std::filesystem::path>& files() const { return files_; }
  std::string format() const { return format_; }  // "safetensors", "sharded safetensors", "pickle"
  size_t bytes() const;                           // of all tensors
  std::vector<std::string> unread() const;        // names that find() never returned, sorted
  // Gives the mapped pages back to the system. Tensors stay valid: what is read again comes from
  // the page cache or the disk. Keeps a load's memory at one copy of the weights.
  void drop_pages() const;
  // Asks the system to read this tensor and what follows it in the file, as those that are asked
  // for next mostly do.
  void read_ahead(const HostTensor& tensor);

 private:
  std::filesystem::path directory_;
  std::string format_;
  std::vector<std::filesystem::path> files_;
  std::vector<std::shared_ptr<MappedFile>> mapped_;
  std::map<std::string, HostTensor> tensors_;
  std::set<std::string> read_;
};

// Readers of one file, for Checkpoint and for tests and fuzzers. `name` is used in errors. Data
// must stay valid as long as `keep_alive`.
std::vector<HostTensor> read_safetensors(const std::byte* data, size_t size,
                                         const std::string& name,
                                         std::shared_ptr<const void> keep_alive);
// A torch.save() zip archive (uncompressed entries) with a pickled dict of tensors. The pickle is
// interpreted by a machine that knows tensors and containers only: no code is ever executed.
std::vector<HostTensor> read_torch_pickle(const std::byte* data, size_t size,
                                          const std::string& name,
                                          std::shared_ptr<const void> keep_alive);

}  // namespace tandem
