// adapter_config.json of an adapter's directory, as PEFT writes it: which modules it changes, and
// how.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem {

// A set of names of modules. One thread.
class ModulePattern {
 public:
  // A regular expression for the whole name. Throws GrammarError.
  explicit ModulePattern(std::string_view expression);
  ~ModulePattern();
  ModulePattern(ModulePattern&&) noexcept;
  ModulePattern& operator=(ModulePattern&&) noexcept;
  bool matches(std::string_view name) const;  // throws InputError if that takes too long

 private:
  struct Automaton;
  std::unique_ptr<Automaton> automaton_;
};

struct AdapterConfig {
  static constexpr int kMaxRank = 1024;

  std::string file;  // for messages
  std::string base;  // the model that it was made for, as it says
  int rank = 8;
  double alpha = 8;
  bool rank_stabilized = false;    // scaling = alpha / sqrt(rank)
  bool weight_decomposed = false;  // DoRA
  bool has_bias = false;           // of B
  // Which of the base's biases were trained too, and stand in the file (PEFT's `bias`).
  enum class TrainedBiases : uint8_t { kNone, kOfTargets, kAll };
  TrainedBiases trained_biases = TrainedBiases::kNone;
  // Modules by the ends of their names; or by a pattern for the whole; neither: whatever the file
  // has.
  std::vector<std::string> targets, excluded;
  std::vector<ModulePattern> target_pattern, excluded_pattern;  // one, or none
  std::vector<int> layers;               // of `targets`, by number; none: all
  std::vector<std::string> layer_lists;  // the scopes of such numbers; none: any
  std::vector<std::string> modules_to_save;
  // Modules with the weight of one that modules_to_save names are in the file too
  // (ensure_weight_tying).
  bool ties_weights = false;
  // The first that matches the end of a name counts.
  std::vector<std::pair<ModulePattern, int>> rank_pattern;
  std::vector<std::pair<ModulePattern, double>> alpha_pattern;

  // Reads and checks it. Throws InputError naming the file and the key, also of what Tandem does
  // not do. max_rank: of all modules.
  static AdapterConfig load(const std::filesystem::path& directory, int max_rank);

  // Names as PEFT has them, without its prefix.
  bool changes(const std::string& module) const;
  bool replaces(const std::string& module) const;  // modules_to_save
  // Whether it is of the tables and heads that share a weight, and stay so (ties_weights).
  bool ties(const std::string& module) const;
  int rank_of(const std::string& module) const;
  double scaling_of(const std::string& module) const;
};

}  // namespace tandem
