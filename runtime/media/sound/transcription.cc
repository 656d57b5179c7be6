#include "runtime/media/sound/transcription.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace tandem {
namespace {

using Ids = std::vector<int32_t>;
using Options = proto::GenerationOptions;

constexpr const char* kField = "prompt.multi_modal_data.audio";

// What acts on logits: languages are found in those of the model.
constexpr const char* kProcessors[] = {"repetition_penalty",
                                       "encoder_repetition_penalty",
                                       "no_repeat_ngram_size",
                                       "encoder_no_repeat_ngram_size",
                                       "bad_words_ids",
                                       "suppress_tokens",
                                       "begin_suppress_tokens",
                                       "forced_bos_token_id",
                                       "forced_eos_token_id",
                                       "min_length",
                                       "min_new_tokens",
                                       "sequence_bias",
                                       "exponential_decay_length_penalty"};

void check_options(const Options& options) {
  const auto refuse = [](const char* name, const char* why) { throw not_supported(name, why); };
  if (options.n() > 1 || options.num_return_sequences() > 1 || options.best_of() > 1)
    refuse("n", "a transcription is one sequence");
  if (options.has_logprobs() || options.has_prompt_logprobs())
    refuse("logprobs", "not built yet for transcriptions");
}

// A clip is one request, whose prompt is the start.
void check_clip(const TranscriptionParams& params) {
  if (!params.prompt_ids.empty())
    throw not_supported("prompt_ids", "the model's prompt takes no text before");
  if (params.condition_on_prev_tokens == true)
    throw not_supported("condition_on_prev_tokens", "the model hears a clip as a whole");
}

void check_built(const SpeechSettings& settings, const TranscriptionParams& params) {
  for (const auto& [name, value] : settings.not_built)
    if (!params.off.contains(name))
      throw not_supported(name, "not built yet (" + value +
                                    " asked for by the model's defaults; null switches it off)");
}

}  // namespace

proto::EncoderFrames window_of(const LogMel& mel, const SpeechSettings& settings, int64_t begin) {
  proto::EncoderFrames out;
  out.set_num_frames(static_cast<int32_t>(settings.clip ? mel.frames : settings.window_frames));
  out.set_width(mel.bins);
  const int64_t end = std::min(begin + settings.window_frames, mel.frames);
  const auto from = mel.values.begin() + begin * mel.bins;
  out.mutable_values()->Reserve(out.num_frames() * out.width());
  out.mutable_values()->Assign(from, mel.values.begin() + end * mel.bins);
  out.mutable_values()->Resize(out.num_frames() * out.width(), 0.0f);
  return out;
}

Transcription::Transcription(std::shared_ptr<const SpeechSettings> settings, LogMel mel,
                             TranscriptionParams params, Options options)
    : settings_(std::move(settings)),
      mel_(std::move(mel)),
      params_(std::move(params)),
      options_(std::move(options)) {
  check_options(options_);
  check_built(*settings_, params_);
  if (settings_->clip) check_clip(params_);
  const bool is_long = mel_.frames > settings_->window_frames;
  if (is_long && params_.return_timestamps == false)
    throw invalid_request("return_timestamps",
                          "must not be false: sound that is longer than a window is cut where the "
                          "model says times");
  timestamps_ =
      is_long || params_.return_timestamps.value_or(settings_->return_timestamps.value_or(false));
  if (timestamps_ && !settings_->no_timestamps)
    throw not_supported(is_long ? kField : "return_timestamps",
                        "generation_config.json has no no_timestamps_token_id: the model says no "
                        "times, which sound longer than a window needs");
  if (!params_.language) params_.language = settings_->language;
  if (!params_.task) params_.task = settings_->task;
  condition_ = params_.condition_on_prev_tokens.value_or(
      settings_->condition_on_prev_tokens.value_or(false));
  if (params_.prompt_all_segments && !condition_)
    throw invalid_request("prompt_condition_type", "all-segments needs condition_on_prev_tokens");
  if (!settings_->clip && !options_.has_max_new_tokens() && !options_.has_max_tokens()) {
    max_length_ = settings_->max_length;
    if (options_.has_max_length()) max_length_ = options_.max_length();
  }
  begin_prompt();
}

// The start, and the language where it is known.
void Transcription::begin_prompt() {
  const SpeechSettings& s = *settings_;
  if (s.multilingual == false && (params_.task || params_.language))
    throw invalid_request(params_.language ? "language" : "task",
                          "the model knows one language and one task (is_multilingual is false)");
  if (params_.task) s.task_id(*params_.task);  // wrong ones are refused before anything is sent
  init_ = {s.decoder_start};
  if (!params_.task && !params_.language && !s.forced_prompt.empty() &&
      s.forced_prompt[0].first == 1) {
    for (const auto& [place, id] : s.forced_prompt) {
      if (place != static_cast<int64_t>(init_.size()))
        throw invalid_model("generation_config.json", "forced_decoder_ids has no id for place " +
                                                          std::to_string(init_.size()));
      init_.push_back(id);
    }
  }
  const bool open = init_.size() <= 1 || !init_[1];
  if (params_.language) {
    const int32_t id = s.language_id(*params_.language);
    language_ = s.language_of(id);
    init_.push_back(id);
  } else {
    detect_ = open && !s.languages.empty();
    if (!open) language_ = s.language_of(*init_[1]);
  }
  if (!detect_) set_task();
}

// Behind the language: the task, and that there are no times.
void Transcription::set_task() {
  const SpeechSettings& s = *settings_;
  const auto is_task = [&](std::optional<int32_t> id) {
    return std::any_of(s.tasks.begin(), s.tasks.end(),
                       [&](const auto& task) { return id == task.second; });
  };
  if (params_.task) {
    init_.push_back(s.task_id(*params_.task));
  } else if (params_.language && std::none_of(init_.begin(), init_.end(), is_task)) {
    if (const auto it = s.tasks.find("transcribe"); it != s.tasks.end())
      init_.push_back(it->second);
  }
  if (!timestamps_ && s.no_timestamps && init_.back() != s.no_timestamps)
    init_.push_back(s.no_timestamps);
  else if (timestamps_ && init_.back() == s.no_timestamps)
    init_.pop_back();
  init_.erase(std::remove(init_.begin(), init_.end(), std::nullopt), init_.end());
}

SpeechWindow Transcription::current() const {
  return {seek_, std::min(mel_.frames - seek_, settings_->window_frames)};
}

double Transcription::seconds_done() const {
  return std::min(settings_->mel.seconds_of(seek_), mel_.seconds);
}

std::optional<Transcription::Request> Transcription::next() {
  if (detect_) return detection();
  if (seek_ >= mel_.frames) return std::nullopt;
  return window();
}

// The likeliest language behind the start, of the model's own logits.
Transcription::Request Transcription::detection() const {
  Request out;
  out.prompt.mutable_encoder()->set_field(kField);
  *out.prompt.mutable_encoder()->mutable_frames() = window_of(mel_, *settings_, 0);
  out.prompt.mutable_decoder()->mutable_token_ids()->add_ids(settings_->decoder_start);
  for (const char* name : kProcessors) out.options.add_off(name);
  out.options.set_max_new_tokens(1);
  out.options.set_num_beams(1);
  out.options.set_do_sample(false);
  for (const auto& [name, id] : settings_->languages)
    out.options.mutable_allowed_token_ids()->add_ids(id);
  if (options_.has_cache_salt()) out.options.set_cache_salt(options_.cache_salt());
  return out;
}

// The end of what was said, behind the request's prompt or the token that begins such texts.
Ids Transcription::text_before() const {
  Ids out = params_.prompt_ids;
  if (!condition_ || (segments_.empty() && (out.empty() || params_.prompt_all_segments)))
    return out;
  Ids text;
  if (!params_.prompt_all_segments) {  // the prompt is the first of the texts
    const bool marked = !out.empty() && out.front() == settings_->prev_start;
    text.assign(out.begin() + (marked ? 1 : 0), out.end());
    out.clear();
  }
  if (out.empty() && settings_->prev_start) out.push_back(*settings_->prev_start);
  const int32_t first = settings_->first_timestamp();
  for (const proto::SpeechSegment& segment : segments_) {
    const auto& ids = segment.token_ids();
    // Of a pair at its end the second is the next one's beginning.
    const bool pair = ids.size() > 2 && ids[ids.size() - 2] >= first;
    text.insert(text.end(), ids.begin(), ids.end() - (pair ? 1 : 0));
  }
  const auto most = static_cast<size_t>(std::max(settings_->decoder_positions / 2 - 1, 0));
  if (text.size() > most) text.erase(text.begin(), text.end() - static_cast<long>(most));
  out.insert(out.end(), text.begin(), text.end());
  return out;
}

Ids Transcription::prompt() const {
  Ids out = text_before();
  for (const std::optional<int32_t>& id : init_) out.push_back(*id);
  return out;
}

// The model's and the request's max_length grow by the prompt, from window to window.
void Transcription::set_length(size_t prompt, Options& options) {
  const auto length = static_cast<int64_t>(prompt);
  const int64_t positions = settings_->decoder_positions;
  const bool by_tokens = options.has_max_tokens();
  if (const int64_t asked = by_tokens ? options.max_tokens() : options.max_new_tokens();
      asked + length > positions)
    throw InputError(ErrorKind::kResource,
                     std::string(by_tokens ? "max_tokens" : "max_new_tokens") + ": " +
                         std::to_string(asked) + " and a decoder prompt of " +
                         std::to_string(length) + " tokens are more than the model's " +
                         std::to_string(positions) + " positions",
                     by_tokens ? "max_tokens" : "max_new_tokens");
  if (!max_length_) return;
  max_length_ = std::min(*max_length_ + std::min(positions / 2 - 1, length), positions);
  options.set_max_length(*max_length_);
}

Transcription::Request Transcription::window() {
  Request out{{}, options_};
  out.prompt.mutable_encoder()->set_field(kField);
  *out.prompt.mutable_encoder()->mutable_frames() = window_of(mel_, *settings_, seek_);
  const Ids ids = prompt();
  if (seek_ == 0 && segments_.empty()) first_prompt_ = ids;
  out.prompt.mutable_decoder()->set_field("prompt_ids");
  out.prompt.mutable_decoder()->mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  if (timestamps_) out.options.set_return_timestamps(true);
  set_length(ids.size(), out.options);
  return out;
}

void Transcription::take(const proto::RequestOutput& output) {
  if (output.outputs_size() == 0)
    throw InputError(ErrorKind::kInternal, "a window of sound has no answer", kField);
  const auto& tokens = output.outputs(0).token_ids();
  metrics_.set_queue_time(metrics_.queue_time() + output.metrics().queue_time());
  metrics_.set_total_time(metrics_.total_time() + output.metrics().total_time());
  metrics_.set_num_preemptions(metrics_.num_preemptions() + output.metrics().num_preemptions());
  if (detect_) {
    if (tokens.empty()) throw InputError(ErrorKind::kInternal, "no language was found", kField);
    detect_ = false;
    language_ = settings_->language_of(tokens[0]);
    if (init_.size() > 1)
      init_[1] = tokens[0];
    else
      init_.push_back(tokens[0]);
    set_task();
    return;
  }
  Ids ids(tokens.begin(), tokens.end());
  const Ids& ends = settings_->end_tokens;
  while (!ids.empty() && std::count(ends.begin(), ends.end(), ids.back()) > 0) ids.pop_back();
  const SpeechWindow window = current();
  if (settings_->clip) {
    proto::SpeechSegment& segment = segments_.emplace_back();
    segment.set_end(mel_.seconds);
    segment.mutable_token_ids()->Assign(ids.begin(), ids.end());
    seek_ = mel_.frames;
    finish_reason_ = output.outputs(0).finish_reason();
    return;
  }
  WindowSegments cut =
      split_segments(ids, settings_->first_timestamp(), window, settings_->frames_per_position);
  segments_.insert(segments_.end(), cut.segments.begin(), cut.segments.end());
  // Where the last time is the window's begin, HuggingFace would never end.
  seek_ += cut.frames > 0 ? cut.frames : window.frames;
  finish_reason_ = output.outputs(0).finish_reason();
}

proto::RequestOutput Transcription::result(const Tokenizer& tokenizer) const {
  proto::RequestOutput out;
  out.set_finished(true);
  out.mutable_inputs()->mutable_prompt_token_ids()->Assign(first_prompt_.begin(),
                                                           first_prompt_.end());
  *out.mutable_metrics() = metrics_;
  out.set_language(language_);
  const auto text_of = [&](const auto& ids) {  // decoded text has no times
    return tokenizer.decode(Ids(ids.begin(), ids.end()), true);
  };
  proto::CompletionOutput& answer = *out.add_outputs();
  for (proto::SpeechSegment segment : segments_) {
    answer.mutable_token_ids()->MergeFrom(segment.token_ids());
    segment.set_text(text_of(segment.token_ids()));
    if (timestamps_) *answer.add_segments() = std::move(segment);
  }
  answer.set_text(text_of(answer.token_ids()));
  answer.set_finish_reason(finish_reason_);
  return out;
}

}  // namespace tandem
