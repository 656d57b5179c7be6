// Names at the hub, of repositories, revisions and files, and which files Tandem reads. What comes
// from a server is untrusted.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace tandem::hub {

// An error about the model that the user named.
inline InputError model_error(ErrorKind kind, const std::string& message) {
  return InputError(kind, "model: " + message, "model");
}

// "name" or "organisation/name", by huggingface_hub's rules.
bool is_repository_id(std::string_view text);
// The 40 hexadecimal digits of a commit.
bool is_commit(std::string_view text);
// A branch, a tag, a commit or refs/pr/N. Throws InputError.
void check_revision(const std::string& revision);
// A file at the top of the repository: no path, no control characters.
bool is_plain_file_name(std::string_view name);
// What may name a file of blobs/.
bool is_blob_name(std::string_view etag);

// What a command reads of a model.
enum class ModelFiles { kTokenizer, kCheckpoint };

struct Selection {
  std::vector<std::string> files;   // small ones, an index included
  std::vector<std::string> absent;  // read if they are there, but they are not
  std::string weights;              // the file with the weights, empty if `index` has the shards
  std::string index;                // of the shards
};

// Out of a repository's files. Throws InputError if there are no weights that Tandem reads.
Selection select_files(const std::set<std::string>& there, ModelFiles part);
// The shards of an index, each of them in `there`. Throws InputError.
std::vector<std::string> shards_of(const nlohmann::json& index, const std::string& index_name,
                                   const std::set<std::string>& there);

}  // namespace tandem::hub
