#include "server/api/routes.h"
#include "server/api/speech/speech_job.h"

namespace tandem::server {
namespace {

void transcribe(AppContext& app, const std::shared_ptr<Exchange>& exchange, SpeechTask task) {
  SpeechRequest request = parse_speech(read_sound_form(exchange->request()), task, app);
  std::make_shared<SpeechJob>(app, exchange, std::move(request))->start();
}

}  // namespace

void post_transcriptions(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  transcribe(app, exchange, SpeechTask::kTranscribe);
}

void post_translations(AppContext& app, const std::shared_ptr<Exchange>& exchange) {
  transcribe(app, exchange, SpeechTask::kTranslate);
}

}  // namespace tandem::server
