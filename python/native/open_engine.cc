#include "python/native/open_engine.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "actors/in_process_engine.h"
#include "base/error.h"
#include "base/json.h"
#include "base/mutex.h"
#include "launcher/cluster/cluster_options.h"
#include "launcher/cluster/prepare_host.h"
#include "launcher/options.h"
#include "launcher/parse_error.h"
#include "launcher/progress.h"
#include "launcher/usage/foreign_flags.h"
#include "models/config/labels.h"
#include "models/config/task_params.h"
#include "models/task.h"
#include "runtime/engine/local_engine.h"
#include "runtime/protocol/json/json_fields.h"
#include "runtime/request/params/language_rules.h"
#include "runtime/request/request_error.h"
#include "runtime/request/request_processor.h"
#include "runtime/version.h"
#include "text/languages.h"

namespace tandem::library {
namespace {

using nlohmann::json;

// More than a caller of this process has under way: it bounds them itself.
constexpr int kMostRequests = 1 << 20;
constexpr int kMostRanks = 1 << 16;

std::string flag_of(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

std::string option_of(std::string flag) {
  while (flag.starts_with('-')) flag.erase(0, 1);
  std::replace(flag.begin(), flag.end(), '-', '_');
  return flag;
}

// The words of one option; none where it is null.
std::vector<std::string> words_of(const std::string& name, const json& value) {
  const std::string flag = flag_of(name);
  if (value.is_null()) return {};
  if (value.is_boolean()) return {value.get<bool>() ? flag : "--no-" + flag.substr(2)};
  if (value.is_string()) return {flag + "=" + value.get<std::string>()};
  if (name == "lora_modules" && value.is_structured()) {
    std::vector<std::string> words;
    for (const auto& [key, one] : value.items())
      words.push_back(flag + "=" + (value.is_object() ? key + "=" : "") +
                      (one.is_string() ? one.get<std::string>() : json_text(one)));
    return words;
  }
  if (value.is_array()) {
    std::string list;
    for (const json& one : value)
      list +=
          (list.empty() ? "" : ",") + (one.is_string() ? one.get<std::string>() : json_text(one));
    return {flag + "=" + list};
  }
  return {flag + "=" + json_text(value)};
}

std::vector<std::string> option_names_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(option_of(name));
  return names;
}

// "; here it is NAME", or nothing: of a name that other programs have.
std::string explain_foreign(const CLI::App& app, const std::string& flag) {
  const launcher::ForeignFlag* foreign = launcher::find_foreign_flag(flag);
  if (foreign == nullptr) return {};
  std::istringstream ours{std::string(foreign->ours)};
  for (std::string option; ours >> option;)
    if (app.get_option_no_throw(option) != nullptr) return "; here it is " + option_of(option);
  return foreign->note.empty() ? "" : "; " + std::string(foreign->note);
}

InputError no_such_option(const CLI::App& app, const std::string& name) {
  std::string hint = explain_foreign(app, flag_of(name));
  if (hint.empty()) hint = launcher::did_you_mean(name, option_names_of(app));
  return invalid_request(name, "there is no such option of an engine" + hint);
}

// What CLI11 says, by the option's name here: "--threads: ..." → "threads: ...".
InputError as_invalid_request(const CLI::ParseError& error, const CLI::App& app,
                              const json& options) {
  std::string what = error.what();
  const size_t begin = what.find("--");
  if (begin == std::string::npos) return InputError(ErrorKind::kInvalidRequest, what, "");
  const std::string flag = what.substr(begin, what.find_first_of(":= ", begin) - begin);
  const std::string name = option_of(flag);
  const CLI::Option* option = app.get_option_no_throw(flag);
  if (dynamic_cast<const CLI::ConversionError*>(&error) && option && options.contains(name)) {
    const bool fraction = option->get_type_name().starts_with("FLOAT");
    return invalid_request(name, std::string("must be ") + (fraction ? "a number" : "an integer") +
                                     ", not " + describe(options[name]));
  }
  if (begin == 0) what = name + what.substr(flag.size());
  return InputError(ErrorKind::kInvalidRequest, what, name);
}

struct Options {
  launcher::EngineOptions engine;
  launcher::ClusterOptions cluster;
};

// CLI11 keeps pointers into `out`.
void read(const json& options, Options& out) {
  CLI::App app;
  out.engine.add_model(app);
  out.engine.add_engine(app);
  out.cluster.add(app);
  std::vector<std::string> words;
  for (const auto& [name, value] : options.items()) {
    const CLI::Option* known = app.get_option_no_throw(flag_of(name));
    if (known == nullptr) throw no_such_option(app, name);
    // A flag that is on unless it is said, or one that is off as it is.
    if (value == false && !known->check_lname("no-" + flag_of(name).substr(2))) {
      if (known->get_expected_max() != 0) throw invalid_request(name, "is no yes or no");
      continue;
    }
    if (value == true && known->get_expected_max() != 0 && known->get_items_expected_max() > 0)
      throw invalid_request(name, "is no yes or no");
    for (std::string& word : words_of(name, value)) words.push_back(std::move(word));
  }
  std::reverse(words.begin(), words.end());
  try {
    app.parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    throw as_invalid_request(error, app, options);
  }
}

// The error with options' names in place of flags'.
InputError by_options(const InputError& error) {
  const std::string& flag = error.param();
  if (!flag.starts_with("--")) return error;
  std::string what = error.what();
  if (what.starts_with(flag)) what = option_of(flag) + what.substr(flag.size());
  return InputError(error.kind(), what, option_of(flag));
}

// Standard output is the program's.
void log_to_standard_error(launcher::LogOptions& log) {
  static std::once_flag once;
  std::call_once(once, [] { spdlog::set_default_logger(spdlog::stderr_color_mt("tandem")); });
  log.apply("engine");
}

json facts_of(const std::string& model, const EngineStatus& status, const RequestProcessor& p) {
  const ModelLimits limits = limits_of(p.model_config());
  json out = {{"model", model},
              {"version", kVersion},
              {"dtype", status.info.dtype()},
              {"reads_images", p.reads_images()},
              {"hears", p.speech_settings() != nullptr},
              {"vocabulary", p.model_config().vocab_size}};
  if (tasks_of(p.model_config()).has(Task::kClassify)) {
    const ModelLabels labels = labels_of(p.model_config());
    using Activation = ModelLabels::Activation;
    out["labels"] = labels.names;
    out["activation"] = labels.activation == Activation::kSoftmax   ? "softmax"
                        : labels.activation == Activation::kSigmoid ? "sigmoid"
                                                                    : "none";
    if (labels.entailment) out["entailment"] = *labels.entailment;
  }
  if (limits.encoder_positions) out["encoder_positions"] = *limits.encoder_positions;
  if (limits.decoder_positions) out["decoder_positions"] = *limits.decoder_positions;
  for (const auto& [task, unused] : task_params(p.model_config())) out["tasks"].push_back(task);
  const LanguageSet& languages = p.tokenizer().languages();
  if (languages.has_source()) out["source_languages"] = languages.names();
  if (!languages.empty()) out["target_languages"] = languages.names();
  if (needs_target_language(p.model_config(), languages)) out["needs_target_language"] = true;
  if (!languages.default_source().empty())
    out["default_source_language"] = languages.default_source();
  if (const SpeechSettings* speech = p.speech_settings())
    out["times"] = speech->no_timestamps.has_value();
  return out;
}

}  // namespace

// Constant once it is open, until it is closed.
struct OpenEngine::Impl {
  // Held by whoever uses the engine, alone by whoever opens or closes it.
  mutable SharedMutex mutex;
  std::unique_ptr<actors::Cluster> cluster GUARDED_BY(mutex);  // of several ranks
  std::unique_ptr<EngineApi> api GUARDED_BY(mutex);            // null: closed
  const RequestProcessor* processor GUARDED_BY(mutex) = nullptr;
  std::optional<AnswerReader> answers GUARDED_BY(mutex);  // of a model that reads images
  json facts;

  void open(const json& given, const std::function<bool()>& stop) REQUIRES(mutex) {
    Options options;
    options.cluster.log.level = "warn";
    read(given, options);
    log_to_standard_error(options.cluster.log);
    EngineConfig config = options.engine.parse();
    config.mutable_loading()->set_model(
        options.engine.find_model(hub::ModelFiles::kCheckpoint, stop).string());
    options.engine.find_draft_model(config, stop);
    launcher::ClusterOptions& ranks = options.cluster;
    if (ranks.backend != "auto" && ranks.backend != "threads")
      throw not_supported("distributed_executor_backend",
                          "in a Python program ranks are threads; `tandem serve` has processes");
    check_range("--tensor-parallel-size", ranks.config.tensor_parallel_size, 1, kMostRanks);
    check_range("--data-parallel-size", ranks.config.data_parallel_size, 1, kMostRanks);
    if (ranks.num_ranks() > 1 || ranks.parallel.ByteSizeLong() > 0) {
      open_cluster(ranks, config, stop);
    } else {
      launcher::ProgressBar bar("Loading");
      auto local = std::make_unique<LocalEngine>(
          config, [&](size_t done, size_t total) { bar.update(done, total); });
      processor = &local->request_processor();
      api = std::move(local);
    }
    facts = facts_of(options.engine.model, api->status(), *processor);
    if (processor->reads_images())
      answers.emplace(processor->model_config(), processor->tokenizer());
  }

  void open_cluster(launcher::ClusterOptions& ranks, const EngineConfig& config,
                    const std::function<bool()>& stop) REQUIRES(mutex) {
    ranks.backend = "threads";
    ranks.config.requests.max_requests = kMostRequests;
    launcher::prepare_host(ranks, config, /*threads=*/0);
    cluster = launcher::start_cluster(ranks, config, nullptr);
    if (!launcher::wait_until_up(*cluster, stop))
      throw InputError(ErrorKind::kUnavailable, "loading was interrupted");
    api = std::make_unique<actors::InProcessEngine>(*cluster);
    processor = &cluster->request_processor();
  }
};

OpenEngine::OpenEngine(const json& options, const std::function<bool()>& stop)
    : impl_(std::make_unique<Impl>()) {
  try {
    const WriterLock lock(impl_->mutex);
    impl_->open(options, stop);
  } catch (const InputError& error) {
    throw by_options(error);
  }
}

OpenEngine::~OpenEngine() { close(); }

void OpenEngine::submit(EngineApi::Request request, EngineApi::OnChunk on_chunk) {
  const ReaderLock lock(impl_->mutex);
  if (impl_->api) return impl_->api->submit(std::move(request), std::move(on_chunk));
  proto::RequestChunk chunk;
  chunk.set_request_id(request.id);
  *chunk.mutable_error() = to_proto(InputError(ErrorKind::kUnavailable, "the engine is closed"));
  on_chunk(std::move(chunk));
}

void OpenEngine::cancel(const std::string& id) {
  const ReaderLock lock(impl_->mutex);
  if (impl_->api) impl_->api->cancel(id);
}

json OpenEngine::tokenize(const json& request) const {
  const ReaderLock lock(impl_->mutex);
  if (!impl_->api) throw InputError(ErrorKind::kUnavailable, "the engine is closed");
  const Tokenizer& tokenizer = impl_->processor->tokenizer();
  if (request.contains("text"))
    return {{"token_ids", tokenizer.encode(read_string(request["text"], "text"))}};
  const json ids = request.value("token_ids", json());
  if (!ids.is_array()) throw invalid_request("token_ids", "must be a list of ids");
  std::vector<int32_t> list;
  for (const json& id : ids)
    list.push_back(static_cast<int32_t>(
        read_int(id, "token_ids", 0, impl_->processor->model_config().vocab_size - 1)));
  return {{"text", tokenizer.decode(list, request.value("skip_special_tokens", false))}};
}

AnswerReader::Question OpenEngine::question(const proto::Prompt& prompt) const {
  const ReaderLock lock(impl_->mutex);
  return impl_->answers ? impl_->answers->question(prompt) : AnswerReader::Question();
}

std::string OpenEngine::parsed(const AnswerReader::Question& question,
                               const proto::RequestOutput& output, int index) const {
  const ReaderLock lock(impl_->mutex);
  if (!question.has_form() || !impl_->answers) return {};
  const auto& ids = output.outputs(index).token_ids();
  const auto& prompt = output.inputs().prompt_token_ids();
  return dump_ordered_line(impl_->answers->read(question,
                                                {prompt.data(), prompt.data() + prompt.size()},
                                                {ids.data(), ids.data() + ids.size()}));
}

const json& OpenEngine::facts() const { return impl_->facts; }

void OpenEngine::close() {
  const WriterLock lock(impl_->mutex);
  impl_->answers.reset();
  impl_->api.reset();
  impl_->processor = nullptr;
  if (impl_->cluster) impl_->cluster->stop();
  impl_->cluster.reset();
}

}  // namespace tandem::library
