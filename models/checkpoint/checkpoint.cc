// Finds the weight files of a directory, reads their headers, and joins them under one set of
// names.
#include "models/checkpoint/checkpoint.h"

#include <algorithm>
#include <system_error>

#include "base/json.h"
#include "base/mapped_file.h"
#include "base/strings/printable.h"
#include "models/checkpoint/other_formats.h"

namespace tandem {
namespace fs = std::filesystem;
namespace {

constexpr size_t kReadAheadBytes = size_t{64} << 20;

// The files that may hold the weights, best first.
struct Layout {
  const char* file;
  const char* format;
  Checkpoint::Reader read;
  bool sharded;
};

constexpr Layout kLayouts[] = {
    {"model.safetensors", "safetensors", read_safetensors, false},
    {"model.safetensors.index.json", "sharded safetensors", read_safetensors, true},
    {"pytorch_model.bin", "pickle", read_torch_pickle, false},
    {"pytorch_model.bin.index.json", "sharded pickle", read_torch_pickle, true},
};

const Layout& find_layout(const fs::path& directory) {
  std::error_code error;
  if (!fs::is_directory(directory, error))
    throw invalid_model(directory.string(), "is not a directory");
  std::string looked_for;
  for (const Layout& layout : kLayouts) {
    // A dangling link counts as there, so that opening it reports it.
    if (fs::symlink_status(directory / layout.file, error).type() != fs::file_type::not_found)
      return layout;
    looked_for += (looked_for.empty() ? "" : ", ") + std::string(layout.file);
  }
  const std::string format = other_format(directory);
  throw invalid_model(directory.string(), "no weights: none of " + looked_for +
                                              (format.empty() ? "" : "; this is " + format));
}

// A shard lies in the directory of its index, or below it.
void check_shard_name(const std::string& index, const std::string& shard) {
  bool inside = !shard.empty() && shard.find_first_of(std::string("\\\0", 2)) == std::string::npos;
  const fs::path path(shard);
  for (const fs::path& part : path) inside &= part != ".." && part != "." && !part.empty();
  if (!inside || path.is_absolute())
    throw invalid_model(index, "weight_map: " + in_quotes(shard) + " is not the name of a file " +
                                   "in the same directory");
}

// tensor → shard.
std::map<std::string, std::string> read_index(const fs::path& file) {
  const nlohmann::json index = load_python_json(file);
  if (!index.is_object()) throw invalid_model(file.string(), "is not a JSON object");
  const auto map = index.find("weight_map");
  if (map == index.end()) throw invalid_model(file.string(), "weight_map is missing");
  if (!map->is_object() || map->empty())
    throw invalid_model(file.string(), "weight_map is not an object with an entry for each tensor");
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, shard] : map->items()) {
    if (!shard.is_string())
      throw invalid_model(file.string(), "weight_map: tensor " + in_quotes(tensor) +
                                             ": the name of a file is expected");
    check_shard_name(file.string(), shard.get_ref<const std::string&>());
    shards[tensor] = shard.get<std::string>();
  }
  return shards;
}

}  // namespace

void Checkpoint::add(const fs::path& file, Reader read) {
  const auto mapped = MappedFile::open(file);
  for (HostTensor& t : read(mapped->data(), mapped->size(), file.string(), mapped)) {
    const std::string name = t.name;
    tensors_[name] = std::move(t);
  }
  files_.push_back(file);
  mapped_.push_back(mapped);
}

Checkpoint Checkpoint::open(const fs::path& directory) {
  const Layout& layout = find_layout(directory);
  Checkpoint out;
  out.directory_ = directory;
  out.format_ = layout.format;
  const fs::path first = directory / layout.file;
  if (!layout.sharded) {
    out.add(first, layout.read);
    return out;
  }
  std::map<std::string, std::string> example;  // shard → one of its tensors
  for (const auto& [tensor, shard] : read_index(first)) example.try_emplace(shard, tensor);
  for (const auto& [shard, tensor] : example) {
    std::error_code error;
    if (!fs::exists(directory / shard, error))
      throw invalid_model(
          (directory / printable(shard)).string(),
          "is missing; " + first.string() + " says that it holds tensor " + in_quotes(tensor));
    out.add(directory / shard,
            shard.ends_with(".safetensors") ? read_safetensors : read_torch_pickle);
  }
  return out;
}

const HostTensor* Checkpoint::find(const std::string& name) {
  const auto it = tensors_.find(name);
  if (it == tensors_.end()) return nullptr;
  read_.insert(name);
  return &it->second;
}

void Checkpoint::skip(const std::string& beginning) {
  for (auto it = tensors_.lower_bound(beginning);
       it != tensors_.end() && it->first.starts_with(beginning); ++it)
    read_.insert(it->first);
}

void Checkpoint::drop_pages() const {
  for (const auto& file : mapped_) file->drop_pages();
}

void Checkpoint::read_ahead(const HostTensor& tensor) {
  for (const auto& file : mapped_) {
    const std::byte* begin = file->data();
    if (tensor.data < begin || tensor.data >= begin + file->size()) continue;
    const auto at = static_cast<size_t>(tensor.data - begin);
    file->read_ahead(at, std::min(tensor.bytes, kReadAheadBytes) + kReadAheadBytes);
  }
}

size_t Checkpoint::bytes() const {
  size_t total = 0;
  for (const auto& [name, tensor] : tensors_) total += tensor.bytes;
  return total;
}

std::vector<std::string> Checkpoint::unread() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors_)
    if (!read_.contains(name)) names.push_back(name);
  return names;
}

}  // namespace tandem
