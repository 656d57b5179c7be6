// The weights of a checkpoint directory as it was downloaded: model.safetensors, a sharded
// model.safetensors.index.json, pytorch_model.bin, or a sharded pytorch_model.bin.index.json.
// Memory-mapped, read-only.
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
  // Reads the names, types and places of a file's tensors.
  using Reader = std::vector<HostTensor> (*)(const std::byte* data, size_t size,
                                             const std::string& name,
                                             std::shared_ptr<const void> keep_alive);

  // Throws InputError naming the file (and tensor) for anything missing, truncated or inconsistent.
  // As in HuggingFace an index only names shards: what else it says of tensors does not count (it
  // lists tied ones that are in no file), and of a tensor in several shards the last one counts.
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
  void add(const std::filesystem::path& file, Reader read);

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
// What torch.save() wrote, a zip archive (uncompressed entries) or a file of torch before 1.6: a
// pickled dict of tensors. The pickle is interpreted by a machine that knows tensors and containers
// only: no code is ever executed. What is no tensor in the dict is left out.
std::vector<HostTensor> read_torch_pickle(const std::byte* data, size_t size,
                                          const std::string& name,
                                          std::shared_ptr<const void> keep_alive);

}  // namespace tandem
