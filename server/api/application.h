// The server's answers: routes, keys, CORS, the access log. Handlers run on the strand of their
// connection, several at a time. No sockets here: tests drive it with their own Exchange.
#pragma once

#include <atomic>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/engine/engine_api.h"
#include "runtime/media/sound/live/live_turns.h"
#include "server/api/deepl/glossary_store.h"
#include "server/api/documents/document_store.h"
#include "server/api/fixed_languages.h"
#include "server/http/config.h"
#include "server/http/connections/connection_hooks.h"
#include "server/metrics/metrics.h"
#include "server/telemetry/span_exporter.h"
#include "text/tokenizer.h"

namespace tandem {
class AnswerReader;  // runtime/request/answer_reader.h
class VoiceSource;   // runtime/media/sound/voice/voice_source.h
}  // namespace tandem

namespace tandem::server {

// Shared by all handlers; outlives them.
struct AppContext {
  const ServerConfig& config;
  EngineApi& engine;
  const Tokenizer& tokenizer;
  int max_model_len = 0;   // positions of the encoder; 0: without bound
  int embedding_size = 0;  // d_model
  std::string version;
  Metrics metrics;
  std::time_t created = std::time(nullptr);
  std::vector<std::string> tasks = {};  // that a request may name
  // What the model is for, as far as its files tell: HuggingFace's names of pipelines, the
  // likeliest first.
  std::vector<std::string> pipelines = {};
  bool reads_images = false;
  // Of a speech model: "transcribe", perhaps "translate"; and the languages that it detects, as
  // "de".
  std::vector<std::string> speech_tasks = {}, speech_languages = {};
  bool speech_times = false;                           // it says when each text is said
  std::shared_ptr<const VoiceSource> voice = nullptr;  // finds speech in live sound; null: nothing
  std::atomic<int> live_sessions{0};
  LiveTurns live_turns = {};
  std::atomic<bool> ending{false};  // the server finishes what has begun, and takes nothing new
  std::atomic<int> prompts_under_way{0};
  // Reserves room for that many prompts. False: answer with a 429.
  bool enter(int prompts) {
    if (prompts_under_way.fetch_add(prompts) + prompts <= config.max_requests) {
      metrics.requests_under_way(prompts);
      return true;
    }
    prompts_under_way -= prompts;
    return false;
  }
  void leave(int prompts) {
    prompts_under_way -= prompts;
    metrics.requests_under_way(-prompts);
  }
  // Requests that wait to be read count as a prompt each.
  std::atomic<int> unread{0};
  void note_unread(int change) {
    unread += change;
    metrics.requests_under_way(change);
  }
  // Runs f where it blocks no connection; by default at once.
  std::function<void(std::function<void()>)> run_apart = [](std::function<void()> f) { f(); };
  std::function<int()> num_connections = [] { return 0; };
  std::atomic<uint64_t> characters_translated{0};  // DeepL's usage
  bool sets_length = false;  // the model's generation_config.json says how long answers may be
  FixedLanguages fixed_languages = {};
  GlossaryStore glossaries = {};
  DocumentStore documents = {};
  std::unique_ptr<SpanExporter> spans = nullptr;  // null: nobody collects them
  const AnswerReader* answers = nullptr;          // null: answers are texts
};

struct Route;

class Application final : public ConnectionHooks {
 public:
  explicit Application(AppContext& context) : context_(context) {}

  Admission admit(const HttpRequest& head) override;
  void handle(const std::shared_ptr<Exchange>& exchange) override;
  void answered(const HttpRequest& request, int status, size_t bytes, double seconds,
                bool complete) override;

 private:
  void serve(const std::shared_ptr<Exchange>& exchange, const Route& route);
  std::optional<HttpResponse> refusal(const HttpRequest& request, const Route*& route) const;

  AppContext& context_;
};

}  // namespace tandem::server
