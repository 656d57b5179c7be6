#include "server/api/speech/speech_job.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/json.h"
#include "base/seconds_since.h"
#include "runtime/protocol/encoder_input.h"
#include "server/api/generation/generation_format.h"
#include "server/http/errors.h"

namespace tandem::server {
namespace {

constexpr const char* kBlanks = " \t\r\n";

const char* content_type_of(TranscriptFormat format) {
  switch (format) {
    case TranscriptFormat::kText:
    case TranscriptFormat::kSrt: return "text/plain; charset=utf-8";
    case TranscriptFormat::kVtt: return "text/vtt; charset=utf-8";
    case TranscriptFormat::kTsv: return "text/tab-separated-values; charset=utf-8";
    default: return "application/json";
  }
}

template <class Segments>
Json words_json(const Segments& segments) {
  Json words = Json::array();
  for (const proto::SpeechSegment& segment : segments)
    for (const proto::SpeechWord& word : segment.words()) words.push_back(word_to_json(word));
  return words;
}

// As transformers' pipeline: texts as they are decoded, blanks in front included.
Json huggingface_json(const proto::CompletionOutput& answer, bool segments, bool words) {
  Json body = {{"text", answer.text()}};
  if (!segments && !words) return body;
  Json chunks = Json::array();
  const auto add = [&](const std::string& text, double start, double end) {
    chunks.push_back({{"text", text}, {"timestamp", {start, end}}});
  };
  for (const proto::SpeechSegment& segment : answer.segments()) {
    if (segments) add(segment.text(), segment.start(), segment.end());
    if (!words) continue;
    for (const proto::SpeechWord& word : segment.words())
      add(word.word(), word.start(), word.end());
  }
  body["chunks"] = std::move(chunks);
  return body;
}

}  // namespace

void SpeechJob::start() {
  std::vector<EngineApi::Request> requests(1);
  EngineApi::Request& r = requests.front();
  r.options = request_.options;
  r.timeout = request_.timeout;
  r.priority = request_.priority;
  proto::PromptPart& encoder = *r.prompt.mutable_encoder();
  encoder.set_field("file");
  *encoder.mutable_sound()->mutable_params() = request_.params;
  r.sound = std::move(request_.file);
  EngineJob::start(std::move(requests));
}

void SpeechJob::on_chunk(size_t, const proto::RequestChunk& chunk) {
  count(chunk);
  if (ended() || chunk.has_error()) return;
  if (!chunk.language().empty()) result_.set_language(chunk.language());
  result_.mutable_warnings()->MergeFrom(chunk.warnings());
  if (request_.stream && chunk.outputs_size() > 0) begin_stream();
  for (const proto::CompletionChunk& news : chunk.outputs())
    if (news.index() == 0) take(news);
}

void SpeechJob::count(const proto::RequestChunk& chunk) {
  const auto now = [&] { return seconds_since(exchange_->begun()); };
  if (chunk.has_progress()) seconds_ = chunk.progress().seconds();
  if (chunk.has_inputs()) prompt_tokens_ = encoder_length(chunk.inputs());
  int tokens = 0;
  for (const proto::CompletionChunk& news : chunk.outputs()) tokens += news.token_ids_size();
  if (tokens > 0 && first_token_ < 0) app_.metrics.first_token(first_token_ = now());
  app_.metrics.tokens_came(tokens, -1);
  output_tokens_ += tokens;
  if (!chunk.finished() && !chunk.has_error()) return;
  Metrics::Ended ended{.reason = "stop", .total = now(), .queue = chunk.metrics().queue_time()};
  for (const proto::CompletionChunk& news : chunk.outputs())
    if (!news.finish_reason().empty()) ended.reason = news.finish_reason();
  if (chunk.has_error()) ended.reason = chunk.error().type();
  ended.first_token = first_token_;
  ended.prompt_tokens = prompt_tokens_;
  ended.output_tokens = output_tokens_;
  report(ended, &request_.options);
  if (!chunk.has_error()) app_.metrics.sound_transcribed(seconds_);
}

void SpeechJob::take(const proto::CompletionChunk& news) {
  proto::CompletionOutput& answer = *result_.mutable_outputs(0);
  answer.mutable_text()->append(news.text());
  const int before = answer.segments_size();
  for (int i = std::max(0, before - news.segment_offset()); i < news.segments_size(); ++i)
    *answer.add_segments() = news.segments(i);
  if (!request_.stream) return;
  send_text();
  if (request_.segments || request_.words) send_segments(before);
}

void SpeechJob::begin_stream() {
  if (std::exchange(streaming_, true)) return;
  times_ = OrderedTimes(seconds_);
  exchange_->start_stream({.content_type = "text/event-stream; charset=utf-8",
                           .headers = {{"x-accel-buffering", "no"}}});
}

void SpeechJob::send(const Json& event) {
  exchange_->write(GenerationFormat::frame(dump_ordered_line(event)));
}

// The text so far, but for blanks around it: those at its end may yet be in its middle.
void SpeechJob::send_text() {
  const std::string& text = result_.outputs(0).text();
  const size_t last = text.find_last_not_of(kBlanks);
  if (last == text.npos || last < text_sent_) return;
  if (text_sent_ == 0) text_begin_ = text_sent_ = text.find_first_not_of(kBlanks);
  send({{"type", "transcript.text.delta"},
        {"delta", text.substr(text_sent_, last + 1 - text_sent_)}});
  text_sent_ = last + 1;
}

void SpeechJob::send_segments(int from) {
  const auto& segments = result_.outputs(0).segments();
  for (int i = from; i < segments.size(); ++i) {
    proto::SpeechSegment segment = segments[i];
    times_.apply(segment);
    Json event = {{"type", "transcript.text.segment"}};
    event["id"] = "seg_" + std::to_string(i);
    event.update(whole_segment_to_json(segment));
    event["speaker"] = "";  // (OpenAI's events have one)
    if (request_.words) event["words"] = words_json(std::span(&segment, 1));
    send(event);
  }
}

// Whole seconds, of hundredths: a sample that resampling adds is not another second.
Json SpeechJob::usage() const {
  const double seconds = std::ceil(std::round(seconds_ * 100) / 100);
  return {{"type", "duration"}, {"seconds", static_cast<int64_t>(seconds)}};
}

// OpenAI's streams count tokens.
Json SpeechJob::token_usage() const {
  Json out = usage();
  out["type"] = "tokens";
  out["input_tokens"] = prompt_tokens_;
  out["input_token_details"] = {{"audio_tokens", prompt_tokens_}, {"text_tokens", 0}};
  out["output_tokens"] = output_tokens_;
  out["total_tokens"] = prompt_tokens_ + output_tokens_;
  return out;
}

// As OpenAI's: of what is written, which a translation has in English.
std::string SpeechJob::language() const {
  return request_.task == "translate" ? "english" : spoken_language_name(result_.language());
}

void SpeechJob::fail(const proto::Error& error) {
  if (!streaming_) return EngineJob::fail(error);
  exchange_->write(GenerationFormat::frame(error_body(error)));
  exchange_->write(GenerationFormat::frame("[DONE]"));
  exchange_->end();
}

void SpeechJob::finish() {
  if (!request_.stream)
    return exchange_->respond({.body = whole(), .content_type = content_type_of(request_.format)});
  begin_stream();
  Json event = {{"type", "transcript.text.done"},
                {"text", result_.outputs(0).text().substr(text_begin_, text_sent_ - text_begin_)}};
  event["language"] = language();
  event["duration"] = seconds_;
  event["usage"] = token_usage();
  if (result_.warnings_size() > 0) event["warnings"] = result_.warnings();
  send(event);
  exchange_->write(GenerationFormat::frame("[DONE]"));
  exchange_->end();
}

std::string SpeechJob::whole() const {
  if (request_.is_huggingface)
    return dump_ordered_line(
        huggingface_json(result_.outputs(0), request_.segments, request_.words));
  if (request_.format == TranscriptFormat::kText) {
    proto::RequestOutput plain = result_;  // without the times that long sound has anyway
    plain.mutable_outputs(0)->clear_segments();
    return write_transcript(request_.format, plain, {});
  }
  std::string text =
      write_transcript(request_.format, result_, {seconds_, request_.task, request_.words});
  if (request_.format != TranscriptFormat::kJson &&
      request_.format != TranscriptFormat::kVerboseJson)
    return text;
  Json body = json_from<Json>(text);
  if (request_.format == TranscriptFormat::kVerboseJson) {
    body["language"] = language();
    if (!request_.segments) body.erase("segments");
  }
  body["usage"] = usage();
  return dump_ordered_line(body);
}

}  // namespace tandem::server
