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
  // As in HuggingFace an index only names shards. Its other statements on tensors do not count,
  // because it lists tied ones that are in no file. Of a tensor in several shards the last one
  // counts.
  static Checkpoint open(const std::filesystem::path& directory);

  const HostTensor* find(const std::string& name) override;
  void skip(const std::string& beginning) override;
  std::string location() const override { return directory_.string(); }

  const std::map<std::string, HostTensor>& tensors() const { return tensors_; }
  const std::vector<std::filesystem::path>& files() const { return files_; }
  std::string format() const { return format_; }  // "safetensors", "sharded safetensors", "pickle"
  size_t bytes() const;                           // of all tensors
  std::vector<std::string> unread() const;        // names that find() never returned, sorted
  // Returns the mapped pages to the system, which keeps a load's memory at one copy of the weights.
  // Tensors stay valid: later reads come from the page cache or the disk.
  void drop_pages() const;
  // Asks the system to read this tensor and the following part of the file, which is mostly needed
  // next.
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
// A file of torch.save(): a pickled dict of tensors, in a zip archive (uncompressed entries) or in
// the format of torch before 1.6. The pickle's interpreter knows only tensors and containers, so no
// code is ever executed. Other values in the dict are left out.
std::vector<HostTensor> read_torch_pickle(const std::byte* data, size_t size,
                                          const std::string& name,
                                          std::shared_ptr<const void> keep_alive);

}  // namespace tandem
