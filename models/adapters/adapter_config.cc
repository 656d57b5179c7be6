#include "models/adapters/adapter_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/json.h"
#include "base/strings/printable.h"
#include "models/config/config_reader.h"
#include "text/grammar/grammar_error.h"
#include "text/grammar/recogniser.h"
#include "text/grammar/regex_parser.h"
#include "text/tokenizer_json.h"

namespace tandem {
namespace {

using nlohmann::json;
constexpr int64_t kMaxSteps = 1'000'000;  // of a pattern over a name

bool ends_with_name(std::string_view module, std::string_view end) {
  return module == end || (module.size() > end.size() && module.ends_with(end) &&
                           module[module.size() - end.size() - 1] == '.');
}

// Keys whose values change the sums in ways that Tandem does not have, unless they are null, false
// or empty.
constexpr const char* kUnsupported[] = {
    "layer_replication", "target_parameters", "trainable_token_indices",
    "use_qalora",        "use_bdlora",        "alora_invocation_tokens",
    "arrow_config",      "kasa_config",       "monteclora_config",
    "velora_config"};
// Ways to begin that change the base's weights too.
constexpr const char* kChangesBase[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};

bool is_off(const json& value) {
  return value.is_null() || value == json(false) || (value.is_structured() && value.empty());
}

class Reader {
 public:
  Reader(std::string file, const json& raw) : in_(file, raw), raw_(raw), file_(std::move(file)) {}

  const json* find(const char* key) const { return in_.find(key); }
  bool flag(const char* key) const { return in_.flag(key, false); }
  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    in_.fail(key, what);
  }
  int rank(const json& value, const std::string& key, int most) const {
    if (!value.is_number_integer() || value < 1 || value > most)
      fail(key, "must be a rank from 1 to " + std::to_string(most) + ", found " +
                    ConfigReader::show(value));
    return value.get<int>();
  }
  double number(const json& value, const std::string& key) const {
    if (!value.is_number() || !std::isfinite(value.get<double>()))
      fail(key, "must be a number, found " + ConfigReader::show(value));
    return value.get<double>();
  }
  // One, or a list of them.
  std::vector<std::string> names(const char* key) const {
    std::vector<std::string> out;
    const json* value = find(key);
    if (value == nullptr) return out;
    for (const json& one : value->is_array() ? *value : json::array({*value})) {
      if (!one.is_string() || one.get_ref<const std::string&>().empty())
        fail(key, "must be a name or a list of names, found " + ConfigReader::show(*value));
      out.push_back(one.get<std::string>());
    }
    return out;
  }
  std::vector<int> numbers(const char* key) const {
    std::vector<int> out;
    const json* value = find(key);
    if (value == nullptr) return out;
    for (const json& one : value->is_array() ? *value : json::array({*value})) {
      if (!one.is_number_integer() || one < 0 || one > ConfigReader::kMaxCount)
        fail(key,
             "must be a number of a layer or a list of them, found " + ConfigReader::show(*value));
      out.push_back(one.get<int>());
    }
    return out;
  }
  AdapterConfig::TrainedBiases trained_biases() const {
    using Biases = AdapterConfig::TrainedBiases;
    const json* bias = find("bias");
    if (bias == nullptr || bias->is_null() || *bias == "none") return Biases::kNone;
    if (*bias == "lora_only") return Biases::kOfTargets;
    if (*bias == "all") return Biases::kAll;
    fail("bias", "must be none, lora_only or all, found " + ConfigReader::show(*bias));
  }
  ModulePattern pattern(const std::string& expression, const std::string& key) const {
    try {
      return ModulePattern(expression);
    } catch (const GrammarError& error) {
      fail(key, in_quotes(expression) + ": " + error.what());
    }
  }
  void check_supported() const {
    const json* type = find("peft_type");
    if (type == nullptr || *type != "LORA")
      fail("peft_type", "only LORA is supported, found " +
                            (type == nullptr ? "nothing" : ConfigReader::show(*type)));
    for (const char* key : kUnsupported)
      if (const json* value = find(key); value != nullptr && !is_off(*value))
        fail(key, "is not supported, found " + ConfigReader::show(*value));
    const json* begin = find("init_lora_weights");
    if (begin == nullptr || !begin->is_string()) return;
    for (const char* way : kChangesBase)
      if (begin->get_ref<const std::string&>().starts_with(way))
        fail("init_lora_weights",
             ConfigReader::show(*begin) + " changes the base's weights; convert it to plain LoRA");
  }

 private:
  ConfigReader in_;
  const json& raw_;
  std::string file_;
};

// PEFT's (.*\.)?(expression)$: of the end of a name, or with ^ of the whole name.
std::string of_names_end(std::string expression) {
  if (expression.ends_with('$') && !expression.ends_with("\\$")) expression.pop_back();
  if (expression.starts_with('^') && expression.find('|') == expression.npos)
    return "(" + expression.substr(1) + ")";
  return "(.*\\.)?(" + expression + ")";
}

// rank_pattern and alpha_pattern, in the file's order.
template <class Value, class Read>
std::vector<std::pair<ModulePattern, Value>> read_patterns(const Reader& in,
                                                           const nlohmann::ordered_json& raw,
                                                           const std::string& key,
                                                           const Read& read) {
  std::vector<std::pair<ModulePattern, Value>> out;
  const auto patterns = raw.find(key);
  if (patterns == raw.end() || patterns->is_null()) return out;
  if (!patterns->is_object()) in.fail(key, "must be an object");
  for (const auto& [expression, value] : patterns->items())
    out.emplace_back(in.pattern(of_names_end(expression), key),
                     read(json(value), key + "." + printable(expression)));
  return out;
}

std::optional<int> parse_number(std::string_view text) {
  int out = 0;
  const auto end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, out);
  if (error != std::errc() || at != end || text.empty() || text[0] == '-') return std::nullopt;
  return out;
}

std::vector<std::string_view> parts_of_name(std::string_view name) {
  std::vector<std::string_view> out;
  for (size_t at = 0; at <= name.size();) {
    const size_t dot = std::min(name.find('.', at), name.size());
    out.push_back(name.substr(at, dot - at));
    at = dot + 1;
  }
  return out;
}

// Of the tables and heads that share a weight in models with tied ones.
bool has_tied_weight(const std::vector<std::string_view>& module) {
  constexpr std::string_view kTied[] = {"embed_tokens", "lm_head", "proj_out", "shared"};
  return std::ranges::find(kTied, module.back()) != std::end(kTied);
}

// The number of a module's layer: the first one behind a name; behind one of `lists`, if there are
// any.
std::optional<int> layer_of(std::string_view module, const std::vector<std::string>& lists) {
  const std::vector<std::string_view> parts = parts_of_name(module);
  if (lists.empty()) {
    for (size_t i = 2; i + 1 < parts.size(); ++i)
      if (const auto number = parse_number(parts[i])) return number;
    return std::nullopt;
  }
  for (const std::string& list : lists)
    for (size_t i = 0; i + 2 < parts.size(); ++i)
      if (parts[i] == list)
        if (const auto number = parse_number(parts[i + 1])) return number;
  return std::nullopt;
}

}  // namespace

struct ModulePattern::Automaton {
  explicit Automaton(const Grammar& grammar) : program(grammar, nullptr), recogniser(program) {}
  GrammarProgram program;
  Recogniser recogniser;
};

ModulePattern::ModulePattern(std::string_view expression) {
  Grammar grammar;
  grammar.set_root(parse_regex(expression, grammar));
  automaton_ = std::make_unique<Automaton>(grammar);
  if (!automaton_->program.place(automaton_->program.start()).completes) {
    automaton_.reset();  // no name at all
    return;
  }
  automaton_->recogniser.set_budget(kMaxSteps);  // clear() takes some
  automaton_->recogniser.clear();
}
ModulePattern::~ModulePattern() = default;
ModulePattern::ModulePattern(ModulePattern&&) noexcept = default;
ModulePattern& ModulePattern::operator=(ModulePattern&&) noexcept = default;

bool ModulePattern::matches(std::string_view name) const {
  if (automaton_ == nullptr) return false;
  Recogniser& recogniser = automaton_->recogniser;
  try {
    recogniser.set_budget(kMaxSteps);
    Recogniser::State state = recogniser.start();
    for (const char c : name) {
      if (state == Recogniser::kDead) return false;
      state = recogniser.next(state, static_cast<uint8_t>(c));
    }
    return state != Recogniser::kDead && recogniser.accepts(state);
  } catch (const GrammarError& error) {
    throw InputError(error.kind(), std::string("a pattern for modules: ") + error.what());
  }
}

AdapterConfig AdapterConfig::load(const std::filesystem::path& directory, int max_rank) {
  const std::filesystem::path file = directory / "adapter_config.json";
  const std::string text = read_text_file(file);
  const json raw = parse_python_json(text, file.string());
  if (!raw.is_object()) throw invalid_model(file.string(), "is not a JSON object");
  const Reader in(file.string(), raw);
  in.check_supported();
  AdapterConfig out;
  out.file = file.string();
  if (const json* base = in.find("base_model_name_or_path"); base != nullptr && base->is_string())
    out.base = base->get<std::string>();
  if (const json* r = in.find("r")) out.rank = in.rank(*r, "r", max_rank);
  if (const json* alpha = in.find("lora_alpha")) out.alpha = in.number(*alpha, "lora_alpha");
  out.rank_stabilized = in.flag("use_rslora");
  out.weight_decomposed = in.flag("use_dora");
  out.has_bias = in.flag("lora_bias");
  out.trained_biases = in.trained_biases();
  out.ties_weights = in.flag("ensure_weight_tying");
  out.layers = in.numbers("layers_to_transform");
  out.layer_lists = in.names("layers_pattern");
  out.modules_to_save = in.names("modules_to_save");
  const auto set = [&](const char* key, std::vector<std::string>& names,
                       std::vector<ModulePattern>& pattern) {
    const json* value = in.find(key);
    if (value == nullptr || !value->is_string()) {
      names = in.names(key);
    } else if (std::string all = value->get<std::string>(); all != "all-linear") {
      pattern.push_back(in.pattern(all, key));
    }
  };
  set("target_modules", out.targets, out.target_pattern);
  set("exclude_modules", out.excluded, out.excluded_pattern);
  const auto ordered = json_or_discarded<nlohmann::ordered_json>(text);
  if (!ordered.is_object()) return out;  // with Python's numbers, which no pattern has
  out.rank_pattern = read_patterns<int>(
      in, ordered, "rank_pattern",
      [&](const json& v, const std::string& key) { return in.rank(v, key, max_rank); });
  out.alpha_pattern = read_patterns<double>(
      in, ordered, "alpha_pattern",
      [&](const json& v, const std::string& key) { return in.number(v, key); });
  return out;
}

bool AdapterConfig::ties(const std::string& module) const {
  return ties_weights && has_tied_weight(parts_of_name(module));
}

bool AdapterConfig::replaces(const std::string& module) const {
  const std::vector<std::string_view> parts = parts_of_name(module);
  if (ties(module) && !modules_to_save.empty()) return true;
  // A name may be of several parts, and stand for all modules within.
  return std::ranges::any_of(modules_to_save, [&](const std::string& saved) {
    const std::vector<std::string_view> wanted = parts_of_name(saved);
    return !std::ranges::search(parts, wanted).empty();
  });
}

bool AdapterConfig::changes(const std::string& module) const {
  const auto ends = [&](const std::string& end) { return ends_with_name(module, end); };
  if (std::ranges::any_of(excluded, ends)) return false;
  for (const ModulePattern& pattern : excluded_pattern)
    if (pattern.matches(module)) return false;
  if (replaces(module)) return false;
  for (const ModulePattern& pattern : target_pattern) return pattern.matches(module);
  if (std::ranges::find(targets, module) != targets.end()) return true;
  if (!std::ranges::any_of(targets, ends)) return false;
  if (layers.empty()) return true;
  const std::optional<int> layer = layer_of(module, layer_lists);
  return layer && std::ranges::find(layers, *layer) != layers.end();
}

int AdapterConfig::rank_of(const std::string& module) const {
  for (const auto& [pattern, value] : rank_pattern)
    if (pattern.matches(module)) return value;
  return rank;
}

double AdapterConfig::scaling_of(const std::string& module) const {
  double of_module = alpha;
  for (const auto& [pattern, value] : alpha_pattern)
    if (pattern.matches(module)) {
      of_module = value;
      break;
    }
  const double r = rank_of(module);
  return of_module / (rank_stabilized ? std::sqrt(r) : r);
}

}  // namespace tandem
