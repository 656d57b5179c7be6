// Names at the hub, and the choice of files (names.h).
#include "launcher/hub/names.h"

#include <algorithm>

#include "base/strings/printable.h"
#include "models/checkpoint/other_formats.h"

namespace tandem::hub {
namespace {

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool is_word(char c) { return is_alphanumeric(c) || c == '_'; }

// One side of the slash.
bool is_name(std::string_view name) {
  if (name.empty() || name.size() > 96 || !is_word(name.front()) || !is_word(name.back()))
    return false;
  return std::all_of(name.begin(), name.end(),
                     [](char c) { return is_word(c) || c == '-' || c == '.'; });
}

bool has_control(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f;
  });
}

// Read where they are there (models/, text/checkpoint_files.cc).
constexpr const char* kTokenizerFiles[] = {"config.json",
                                           "tokenizer.json",
                                           "tokenizer_config.json",
                                           "special_tokens_map.json",
                                           "added_tokens.json",
                                           "vocab.json",
                                           "spiece.model",
                                           "source.spm",
                                           "target.spm",
                                           "target_vocab.json",
                                           "vocab-src.json",
                                           "vocab-tgt.json",
                                           "sentencepiece.bpe.model",
                                           "merges.txt"};
// How files that are not texts become the encoder's input.
constexpr const char* kPreprocessorFiles[] = {"processor_config.json", "preprocessor_config.json"};
constexpr const char* kGenerationConfig = "generation_config.json";

// As in models/checkpoint/checkpoint.cc, best first.
struct Weights {
  const char* file;
  bool is_index;
};
constexpr Weights kWeights[] = {{"model.safetensors", false},
                                {"model.safetensors.index.json", true},
                                {"pytorch_model.bin", false},
                                {"pytorch_model.bin.index.json", true}};

}  // namespace

bool is_repository_id(std::string_view text) {
  if (text.find("--") != std::string_view::npos || text.find("..") != std::string_view::npos)
    return false;
  if (text.size() >= 4 && text.substr(text.size() - 4) == ".git") return false;
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return is_name(text);
  return is_name(text.substr(0, slash)) && is_name(text.substr(slash + 1));
}

bool is_commit(std::string_view text) {
  return text.size() == 40 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

void check_revision(const std::string& revision) {
  const auto bad = [&](const std::string& why) {
    return invalid_request("--revision", in_quotes(revision) + " " + why);
  };
  if (revision.empty() || revision.size() > 200)
    throw bad("is not the name of a branch, a tag or a commit");
  for (size_t at = 0; at <= revision.size();) {
    const size_t end = std::min(revision.find('/', at), revision.size());
    const std::string_view part = std::string_view(revision).substr(at, end - at);
    if (part.empty() || part.front() == '.' || has_control(part) ||
        part.find_first_of("\\ ~^:?*[") != std::string_view::npos)
      throw bad("is not the name of a branch, a tag or a commit");
    at = end + 1;
  }
}

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name.size() <= 255 && name.front() != '.' && !has_control(name) &&
         name.find_first_of("/\\") == std::string_view::npos;
}

bool is_blob_name(std::string_view etag) {
  return !etag.empty() && etag.size() <= 128 && is_alphanumeric(etag.front()) &&
         std::all_of(etag.begin(), etag.end(),
                     [](char c) { return is_word(c) || c == '-' || c == '.'; });
}

Selection select_files(const std::set<std::string>& there, ModelFiles part) {
  Selection out;
  const auto take = [&](const char* name) {
    (there.count(name) ? out.files : out.absent).push_back(name);
  };
  for (const char* name : kTokenizerFiles) take(name);
  if (part == ModelFiles::kTokenizer) return out;
  take(kGenerationConfig);
  for (const char* name : kPreprocessorFiles) take(name);
  for (const Weights& weights : kWeights) {
    if (there.count(weights.file) == 0) continue;
    (weights.is_index ? out.index : out.weights) = weights.file;
    if (weights.is_index) out.files.push_back(weights.file);
    return out;
  }
  const std::string format = other_format({there.begin(), there.end()});
  throw model_error(ErrorKind::kInvalidModel,
                    "the repository has no weights that can be read: neither model.safetensors nor "
                    "pytorch_model.bin, nor an index of either" +
                        (format.empty() ? std::string() : "; it has " + format));
}

std::vector<std::string> shards_of(const nlohmann::json& index, const std::string& index_name,
                                   const std::set<std::string>& there) {
  const auto bad = [&](const std::string& why) {
    return model_error(ErrorKind::kInvalidModel, index_name + ": " + why);
  };
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw bad("weight_map is missing or not an object");
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string()) throw bad("weight_map: the name of a file is expected");
    const auto& name = shard.get_ref<const std::string&>();
    if (!is_plain_file_name(name))
      throw bad("weight_map: " + in_quotes(name) + " is not the name of a file beside it");
    if (there.count(name) == 0)
      throw bad("weight_map: " + in_quotes(name) + " is not in the repository");
    shards.insert(name);
  }
  if (shards.empty()) throw bad("weight_map is empty");
  return {shards.begin(), shards.end()};
}

}  // namespace tandem::hub
