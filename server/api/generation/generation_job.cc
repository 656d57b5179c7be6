#include "server/api/generation/generation_job.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/strings/code_points.h"
#include "runtime/protocol/encoder_input.h"
#include "server/api/generation/generation_format.h"

namespace tandem::server {
namespace {

double seconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

// As vLLM: the header comes before the body's field.
std::string request_id_of(const GenerationRequest& request, const HttpRequest& http) {
  const bool by_field = !request.request_id.empty() && http.header("x-request-id") == nullptr;
  return by_field ? request.request_id : http.id;
}

// That the request says, whatever it calls them; 0: none.
int64_t most_tokens(const proto::GenerationOptions& options) {
  if (options.has_max_tokens()) return options.max_tokens();
  return options.has_max_new_tokens() ? options.max_new_tokens() : options.max_length();
}

}  // namespace

std::unique_ptr<AnswerFormat> openai_format(const AppContext& app, const GenerationRequest& request,
                                            const std::string& id) {
  const char* prefix = request.endpoint == Endpoint::kChat ? "chatcmpl-" : "cmpl-";
  return std::make_unique<GenerationFormat>(request, prefix + id, std::time(nullptr),
                                            "tandem-" + app.version);
}

GenerationJob::GenerationJob(AppContext& app, std::shared_ptr<Exchange> exchange,
                             GenerationRequest request, const MakeFormat& make_format)
    : EngineJob(app, std::move(exchange)),
      request_(std::move(request)),
      format_(make_format(app, request_, request_id_of(request_, exchange_->request()))),
      parts_(request_.prompts.size()),
      choices_(request_.prompts.size() * static_cast<size_t>(request_.sequences)) {
  if (app.answers != nullptr && format_->shows_parsed())
    for (size_t i = 0; i < parts_.size(); ++i)
      parts_[i].question = app.answers->question(request_.prompts[i]);
  if (reads_answers()) answer_ids_.resize(choices_.size());
  names_ = request_.names;
  id_ = request_id_of(request_, exchange_->request());
  for (size_t i = 0; i < choices_.size(); ++i) {
    choices_[i].index = static_cast<int>(i);
    if (!request_.echoes.empty()) choices_[i].text = request_.echoes[i / request_.sequences];
    if (request_.return_token_ids)
      choices_[i].prompt_token_ids = &parts_[i / request_.sequences].prompt_token_ids;
    choices_[i].text_offset = count_code_points(choices_[i].text);
  }
}

void GenerationJob::start() {
  EngineApi::Request r;
  r.options = request_.options;
  r.timeout = request_.timeout;
  r.priority = request_.priority;
  std::vector<EngineApi::Request> requests(request_.prompts.size(), r);
  for (size_t i = 0; i < requests.size(); ++i) requests[i].prompt = request_.prompts[i];
  if (requests.empty()) return finish();  // documents without a word
  EngineJob::start(std::move(requests));
}

void GenerationJob::on_chunk(size_t index, const proto::RequestChunk& chunk) {
  PromptProgress& part = parts_[index];
  count_tokens(part, chunk);
  if (chunk.finished() || chunk.has_error()) count_end(part, chunk);
  if (ended() || chunk.has_error()) return;
  part.prompt_logprobs.insert(part.prompt_logprobs.end(), chunk.prompt_logprobs().begin(),
                              chunk.prompt_logprobs().end());
  warnings_.insert(warnings_.end(), chunk.warnings().begin(), chunk.warnings().end());
  if (request_.stream) begin_stream();
  for (const proto::CompletionChunk& news : chunk.outputs()) take(index, news);
}

void GenerationJob::count_tokens(PromptProgress& part, const proto::RequestChunk& chunk) {
  if (chunk.has_inputs()) {  // they may come twice
    usage_.prompt_tokens -= part.prompt_tokens;
    part.prompt_tokens = encoder_length(chunk.inputs());
    usage_.prompt_tokens += part.prompt_tokens;
    const auto& ids = chunk.inputs().encoder_prompt_token_ids();
    if (request_.return_token_ids) part.prompt_token_ids.assign(ids.begin(), ids.end());
    const auto& decoder_ids = chunk.inputs().prompt_token_ids();
    if (request_.prompt_logprobs || part.question.has_form())
      part.decoder_prompt_token_ids.assign(decoder_ids.begin(), decoder_ids.end());
  }
  int tokens = 0;
  part.lengths.resize(static_cast<size_t>(request_.sequences));
  for (const proto::CompletionChunk& news : chunk.outputs()) {
    tokens += news.token_ids_size();
    if (news.index() >= 0 && news.index() < request_.sequences)
      part.lengths[static_cast<size_t>(news.index())] += news.token_ids_size();
  }
  if (tokens == 0) return;
  const Clock::time_point now = Clock::now();
  if (part.first_token < 0) {
    part.first_token = seconds(now - exchange_->begun());
    app_.metrics.first_token(part.first_token);
    app_.metrics.tokens_came(tokens, -1);
  } else {
    app_.metrics.tokens_came(tokens, seconds(now - part.last_token) / chunk.outputs_size());
  }
  part.last_token = now;
  part.output_tokens += tokens;
  usage_.completion_tokens += tokens;
}

void GenerationJob::take(size_t part, const proto::CompletionChunk& news) {
  if (news.index() < 0 || news.index() >= request_.sequences) return;
  const size_t index =
      part * static_cast<size_t>(request_.sequences) + static_cast<size_t>(news.index());
  Choice& choice = choices_[index];
  if (!answer_ids_.empty())
    answer_ids_[index].insert(answer_ids_[index].end(), news.token_ids().begin(),
                              news.token_ids().end());
  choice.text += news.text();
  choice.news_length += count_code_points(news.text());
  choice.token_ids.insert(choice.token_ids.end(), news.token_ids().begin(), news.token_ids().end());
  choice.logprobs.insert(choice.logprobs.end(), news.logprobs().begin(), news.logprobs().end());
  if (news.has_score()) choice.score = news.score();
  choice.finish_reason = news.finish_reason();
  choice.stop_reason = news.stop_reason();
  if (!request_.stream) return;
  // Tokens that are no text yet are news too: clients measure by them.
  if (choice.text.empty() && choice.token_ids.empty() && choice.finish_reason.empty()) return;
  write(format_->event(choice, usage_));
  choice.text_offset += choice.news_length;
  choice.news_length = 0;
  choice.text.clear();
  choice.token_ids.clear();
  choice.logprobs.clear();
  choice.prompt_token_ids = nullptr;
}

void GenerationJob::begin_stream() {
  if (streaming_) return;
  streaming_ = true;
  exchange_->start_stream({.content_type = "text/event-stream; charset=utf-8",
                           .headers = {{"x-accel-buffering", "no"}}});
  write(format_->begin(choices_, usage_));
}

void GenerationJob::write(std::string events) {
  if (!events.empty()) exchange_->write(std::move(events));
}

void GenerationJob::count_end(const PromptProgress& part, const proto::RequestChunk& chunk) {
  Metrics::Ended ended;
  ended.reason = "stop";
  for (const proto::CompletionChunk& news : chunk.outputs())
    if (!news.finish_reason().empty()) ended.reason = news.finish_reason();
  if (chunk.has_error()) ended.reason = chunk.error().type();
  ended.total = seconds(Clock::now() - exchange_->begun());
  ended.queue = chunk.metrics().queue_time();
  ended.preemptions = chunk.metrics().num_preemptions();
  ended.first_token = part.first_token;
  ended.prompt_tokens = part.prompt_tokens;
  ended.output_tokens = part.output_tokens;
  ended.sequences = request_.sequences;
  for (const int length : part.lengths) ended.longest = std::max(ended.longest, length);
  ended.max_tokens = most_tokens(request_.options);
  report(ended, &request_.options);
}

void GenerationJob::fail(const proto::Error& error) {
  if (!streaming_) return EngineJob::fail(error);
  write(format_->failure(error));
  exchange_->end();
}

// The documents of the texts that have come.
void GenerationJob::join_documents() {
  std::vector<std::string> texts;
  std::string finish_reason = "stop";
  for (const Choice& choice : choices_) {
    texts.push_back(choice.text);
    if (choice.finish_reason == "length") finish_reason = choice.finish_reason;
  }
  choices_.clear();
  for (std::string& text : translated_documents(request_, texts)) {
    Choice choice;
    choice.index = static_cast<int>(choices_.size());
    choice.text = std::move(text);
    choice.finish_reason = finish_reason;
    choices_.push_back(std::move(choice));
  }
}

bool GenerationJob::reads_answers() const {
  return std::any_of(parts_.begin(), parts_.end(),
                     [](const PromptProgress& part) { return part.question.has_form(); });
}

GenerationJob::Answers GenerationJob::read_answers() const {
  Answers out(choices_.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const PromptProgress& part = parts_[i / static_cast<size_t>(request_.sequences)];
    if (part.question.has_form())
      out[i] = app_.answers->read(part.question, part.decoder_prompt_token_ids, answer_ids_[i]);
  }
  return out;
}

void GenerationJob::finish() {
  if (!reads_answers()) return respond({});
  app_.run_apart([self = std::static_pointer_cast<GenerationJob>(shared_from_this())] {
    self->exchange_->post([self, answers = self->read_answers()] { self->respond(answers); });
  });
}

void GenerationJob::respond(Answers answers) {
  if (!request_.documents.empty())
    join_documents();
  else if (request_.prompt_logprobs)
    for (size_t i = 0; i < choices_.size(); ++i) {
      const PromptProgress& part = parts_[i / request_.sequences];
      choices_[i].prompt_logprobs = &part.prompt_logprobs;
      choices_[i].decoder_prompt_token_ids = &part.decoder_prompt_token_ids;
    }
  for (size_t i = 0; i < answers.size(); ++i) choices_[i].parsed = std::move(answers[i]);
  if (!request_.stream)
    return exchange_->respond({.body = format_->whole(choices_, usage_, warnings_)});
  for (size_t i = 0; i < answers.size(); ++i) {
    if (!choices_[i].parsed) continue;
    Choice last;
    last.index = choices_[i].index;
    last.parsed = std::move(choices_[i].parsed);
    write(format_->event(last, usage_));
  }
  write(format_->end(usage_));
  exchange_->end();
}

}  // namespace tandem::server
