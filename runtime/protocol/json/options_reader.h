// JSON → GenerationOptions: the names that a request's `params` and a generation_config.json may
// carry, one table row each, and how its value is read. It is read once, where it comes in. What
// the values mean (defaults, counting, conflicts) is runtime/request/params/params_resolver.h's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "runtime/protocol/json/unbuilt_options.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// A request's parameters. Throws InputError naming the parameter: unknown (with the nearest known
// name), not built yet, of the wrong type or out of range; ids are not compared with a vocabulary.
// `params` null: none.
proto::GenerationOptions read_options(const nlohmann::json& params);

// Puts `over` over `params`, both as read_options() takes them: of a parameter with two spellings
// the one of `over` counts.
void update_params(nlohmann::json& params, const nlohmann::json& over);

// The bounds of options that somebody else may have made: as read_options().
void check_options(const proto::GenerationOptions& options);

// What `over` says, or switches off, takes the place of what `options` say.
void override_options(const proto::GenerationOptions& over, proto::GenerationOptions& options);

struct ModelOptions {
  proto::GenerationOptions options;
  UnbuiltOptions not_built;
};
// The HuggingFace names in `generation` (ModelConfig::generation); others are ignored. Ids outside
// the vocabulary are dropped where HuggingFace ignores them. Errors are of the kind kInvalidModel
// and begin with `source`.
ModelOptions read_model_options(const nlohmann::json& generation, int vocab_size,
                                const std::string& source = "generation_config.json");

// All names that are understood, those not built included; sorted.
std::vector<std::string> option_names();

// n and the lists have bounds, so that no request allocates without one.
inline constexpr int64_t kMaxSequences = 10000;
inline constexpr int64_t kMaxLogprobs = 100;
inline constexpr size_t kMaxStopStrings = 64;
inline constexpr size_t kMaxStopStringBytes = 1024;
inline constexpr size_t kMaxBadWords = 1024;  // as texts
inline constexpr size_t kMaxBadWordBytes = 1024;
inline constexpr size_t kMaxIdLists = 65536;  // bad_words_ids, sequence_bias
inline constexpr size_t kMaxIdsInList = 1024;
inline constexpr size_t kMaxSaltBytes = 1024;
inline constexpr size_t kMaxShortNameBytes = 256;  // of a language, a task

}  // namespace tandem
