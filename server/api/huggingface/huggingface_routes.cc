#include <memory>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/json.h"
#include "runtime/protocol/json/options_reader.h"
#include "server/api/fields/json_body.h"
#include "server/api/generation/generation_job.h"
#include "server/api/huggingface/huggingface.h"
#include "server/api/huggingface/huggingface_sound.h"
#include "server/api/routes.h"
#include "server/api/speech/speech_job.h"

namespace tandem::server {
namespace {

void generate(AppContext& app, const std::shared_ptr<Exchange>& exchange, HuggingFaceKind kind,
              const std::string& task = {}) {
  HuggingFaceRequest request = parse_huggingface(parse_body(exchange->request()), kind, task, app);
  const auto format = [&](const AppContext& context, const GenerationRequest&, const std::string&) {
    return huggingface_format(std::move(request.answer), context.tokenizer);
  };
  std::make_shared<GenerationJob>(app, exchange, std::move(request.generation), format)->start();
}

void recognise(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  std::make_shared<SpeechJob>(app, exchange, parse_recognition(exchange->request(), app))->start();
}

const char* task_of(const AppContext& app) {
  if (!app.speech_tasks.empty()) return "automatic-speech-recognition";
  if (app.reads_images) return "image-to-text";
  return app.tokenizer.languages().empty() ? "text2text-generation" : "translation";
}

}  // namespace

void post_generate(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  generate(app, exchange, HuggingFaceKind::kGenerate);
}

void post_generate_stream(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  generate(app, exchange, HuggingFaceKind::kStream);
}

void post_huggingface(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  if (!app.speech_tasks.empty()) return recognise(app, exchange);
  generate(app, exchange, HuggingFaceKind::kRoot);
}

void post_text_pipeline(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const std::string& path = exchange->request().path;
  generate(app, exchange, HuggingFaceKind::kPipeline, path.substr(path.rfind('/') + 1));
}

void post_speech_pipeline(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  recognise(app, exchange);
}

// Without text-generation-inference's max_total_tokens: encoder and decoder share no positions.
void get_info(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  const EngineStatus status = app.engine.status();
  Json body = {{"model_id", app.config.model_names.front()},
               {"model_sha", nullptr},
               {"model_dtype", status.info.dtype()},
               {"model_pipeline_tag", task_of(app)},
               {"max_concurrent_requests", app.config.max_requests},
               {"max_best_of", kMaxSequences},
               {"max_stop_sequences", kMaxStopStrings},
               {"max_top_n_tokens", kMaxLogprobs},
               {"max_client_batch_size", app.config.max_prompts},
               {"router", "tandem"},
               {"version", app.version},
               {"sha", nullptr},
               {"docker_label", nullptr}};
  if (app.max_model_len > 0) body["max_input_tokens"] = app.max_model_len;
  exchange->respond({.body = dump_ordered_line(body)});
}

}  // namespace tandem::server
