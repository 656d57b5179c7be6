// An engine that is stepped by hand: for tests and benchmarks, which look at it between two steps.
// Whoever wants answers takes LocalEngine. One thread; needs no actors.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/engine/engine_shell.h"

namespace tandem {

class LLMEngine {
 public:
  // Loads the checkpoint. Throws InputError naming the flag, file or tensor at fault.
  explicit LLMEngine(const EngineConfig& config, const LoadProgress& progress = {});
  LLMEngine(const LLMEngine&) = delete;
  LLMEngine& operator=(const LLMEngine&) = delete;

  // Validates, tokenises (sound is read, which takes its time) and queues a request. Of smaller
  // priority is served first. Throws InputError, and then nothing has changed. request_id must be
  // unused.
  void add_request(const std::string& request_id, const proto::Prompt& prompt,
                   const proto::GenerationOptions& options, int priority = 0);
  // The same as JSON (runtime/protocol/json/prompt_reader.h,
  // runtime/protocol/json/options_reader.h).
  void add_request(const std::string& request_id, const nlohmann::json& prompt,
                   const nlohmann::json& params, int priority = 0);
  // The same of one that has been prepared().
  void add_request(const std::string& request_id, PreparedRequest request, int priority = 0);
  RequestProcessor& processor() { return shell_.processor(); }
  // Whether there is memory for one more sound beside those that are transcribed. More is taken all
  // the same.
  bool takes_sound() const { return shell_.takes_sound(); }
  bool abort_request(const std::string& request_id);
  // Or ended ones that step() has not returned.
  bool has_unfinished_requests() const { return !unfinished_.empty() || !finished_.empty(); }

  // EngineShell::step(). Returns the requests that ended with it: each once, whole.
  std::vector<proto::RequestOutput> step();
  // What has failed since the last call, by id: transcriptions may, after they were added.
  std::vector<std::pair<std::string, InputError>> take_failures() {
    return std::exchange(failures_, {});
  }
  // From now on `sink` is given, within step(), what is new of each request, the end included.
  // Beams and best_of show nothing before their end. The sink must not call the engine.
  using ChunkSink = std::function<void(const proto::RequestChunk& chunk)>;
  void stream_to(ChunkSink sink) { sink_ = std::move(sink); }

  const Tokenizer& tokenizer() const { return shell_.processor().tokenizer(); }
  const ModelConfig& model_config() const { return shell_.processor().model_config(); }
  const Scheduler& scheduler() const { return shell_.scheduler(); }
  DType dtype() const { return shell_.dtype(); }
  // Of the worker.
  DecoderStats decoder_stats() const { return shell_.worker().decoder_stats(); }
  void time_decoder() { shell_.worker().time_decoder(); }
  // Everything that keeps state agrees; for tests, after every step.
  void check_integrity() const;

 private:
  void take(const proto::RequestChunk& chunk);

  EngineShell shell_;
  ChunkSink sink_;
  std::string adding_;                                                // the request being added
  std::optional<proto::Error> refused_;                               // what became of it
  std::vector<std::pair<std::string, InputError>> failures_;          // of others
  std::unordered_map<std::string, proto::RequestOutput> unfinished_;  // what has come so far
  std::vector<proto::RequestOutput> finished_;                        // by the step under way
};

}  // namespace tandem
