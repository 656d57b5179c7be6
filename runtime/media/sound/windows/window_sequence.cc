#include "runtime/media/sound/windows/window_sequence.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "runtime/media/sound/speech_input.h"
#include "runtime/media/sound/words/alignment.h"

namespace tandem {
namespace {

// A request of the engine's own computes the same as the client's.
void share_caches(const proto::GenerationOptions& client, proto::GenerationOptions& own) {
  if (client.has_cache_salt()) own.set_cache_salt(client.cache_salt());
  if (client.has_lora()) own.set_lora(client.lora());
}

using Ids = std::vector<int32_t>;
using Options = proto::GenerationOptions;

constexpr double kSecondsPerPosition = 0.02;

// What acts on logits: languages and silence are found in those of the model.
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

// A window's and an attempt's own; the first one's is the request's.
int64_t seed_for(int64_t seed, int place, int window, size_t attempt) {
  if (seed == -1 || (place == 0 && window == 0 && attempt == 0)) return seed;
  auto x = static_cast<uint64_t>(seed);
  for (const auto part : {static_cast<uint64_t>(place), static_cast<uint64_t>(window),
                          static_cast<uint64_t>(attempt)}) {  // splitmix64
    x += 0x9e3779b97f4a7c15 * (part + 1);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    x ^= x >> 31;
  }
  const auto out = static_cast<int64_t>(x);
  return out == -1 ? 0 : out;  // -1 is none
}

// A clip is one text.
WindowSegments whole(const LogMel& clip, const Ids& ids) {
  WindowSegments out{{}, clip.frames};
  proto::SpeechSegment& segment = out.segments.emplace_back();
  segment.set_end(clip.seconds);
  segment.mutable_token_ids()->Assign(ids.begin(), ids.end());
  return out;
}

}  // namespace

WindowSequence::WindowSequence(std::shared_ptr<const SpeechTask> task, LogMel mel, int place)
    : task_(std::move(task)),
      mel_(std::move(mel)),
      prompt_(*task_->settings, task_->params, task_->timestamps),
      place_(place),
      condition_(task_->params.condition_on_prev_tokens) {
  const SpeechSettings& settings = *task_->settings;
  const TranscriptionParams& params = task_->params;
  const int64_t sound = frames_of_sound(mel_, settings);
  clips_ = params.clips.empty() ? std::vector<SoundClip>{{0, mel_.frames}}
                                : clips_of(params.clips, sound, settings.mel.frames_per_second());
  if (!clips_.empty()) seek_ = clips_.front().begin;
  jumped_ = seek_ > 0;
  if (params.hallucination_silence)
    silence_.emplace(task_->settings, *task_->tokenizer, *params.hallucination_silence, sound);
  move_to(seek_);
  const Options& options = task_->options;
  if (task_->settings->clip || options.has_max_new_tokens() || options.has_max_tokens()) return;
  max_length_ = task_->settings->max_length;
  if (options.has_max_length()) max_length_ = options.max_length();
}

// To that frame, or to the first one behind it that is to be heard.
void WindowSequence::move_to(int64_t frame) {
  seek_ = frame;
  while (!done() && seek_ >= clips_[clip_].end)
    if (++clip_ < clips_.size()) {
      seek_ = std::max(seek_, clips_[clip_].begin);
      jumped_ = true;
    }
  if (done()) mel_.values = {};
}

// Frames of sound that the window has; silence may stand behind them.
int64_t WindowSequence::window_frames() const {
  return std::min(clips_[clip_].end - seek_, task_->settings->window_frames);
}

proto::Prompt WindowSequence::prompt_of(const Ids& ids) const {
  proto::Prompt out;
  out.mutable_encoder()->set_field(kSoundField);
  *out.mutable_encoder()->mutable_frames() =
      window_of(mel_, *task_->settings, seek_, window_frames());
  out.mutable_decoder()->set_field("prompt_ids");
  out.mutable_decoder()->mutable_token_ids()->mutable_ids()->Assign(ids.begin(), ids.end());
  return out;
}

// One token behind `ids`, by the model's own logits; which shares the encoder's output with others
// of the window.
PartRequest WindowSequence::probe(const Ids& ids, Ids allowed) const {
  PartRequest out;
  out.prompt = prompt_of(ids);
  for (const char* name : kProcessors) out.options.add_off(name);
  out.options.set_max_new_tokens(1);
  out.options.set_num_beams(1);
  out.options.set_do_sample(false);
  out.options.mutable_allowed_token_ids()->mutable_ids()->Assign(allowed.begin(), allowed.end());
  share_caches(task_->options, out.options);
  return out;
}

// The model's and the request's max_length grow by the prompt, from window to window.
void WindowSequence::set_length(size_t prompt) {
  const auto length = static_cast<int64_t>(prompt);
  const int64_t positions = task_->settings->decoder_positions;
  const Options& options = task_->options;
  // (More max_tokens than there are positions are cut, as for texts.)
  if (options.max_new_tokens() + length > positions)
    throw InputError(ErrorKind::kResource,
                     "max_new_tokens: " + std::to_string(options.max_new_tokens()) +
                         " and a decoder prompt of " + std::to_string(length) +
                         " tokens are more than the model's " + std::to_string(positions) +
                         " positions",
                     "max_new_tokens");
  if (max_length_)
    max_length_ = std::min(*max_length_ + std::min(positions / 2 - 1, length), positions);
}

// Of a window of the search, or of the next one, whose language is found for itself.
PartRequest WindowSequence::language_probe() const {
  const SpeechSettings& settings = *task_->settings;
  Ids languages;
  for (const auto& [name, id] : settings.languages) languages.push_back(id);
  PartRequest out = probe({settings.decoder_start}, std::move(languages));
  if (!search_) return out;
  if (search_->asked() > 0 || !task_->params.clips.empty())
    *out.prompt.mutable_encoder()->mutable_frames() =
        window_of(mel_, settings, seek_ + search_->asked() * settings.window_frames);
  if (search_->compares()) out.options.set_processed_logprobs(true);
  return out;
}

void WindowSequence::take_language(const proto::CompletionOutput& output) {
  if (output.token_ids().empty())
    throw InputError(ErrorKind::kInternal, "no language was found", kSoundField);
  if (!search_) {
    language_known_ = true;
    return prompt_.change_language(output.token_ids(0));
  }
  search_->add(output.token_ids(0), std::exp(output.cumulative_logprob()));
  if (!search_->done()) return;
  prompt_.set_language(search_->language());
  search_.reset();
}

void WindowSequence::begin_window() {
  const bool first = windows_ == 0;
  prefix_ = first && place_ == 0 ? prompt_.prefix() : Ids();
  // (faster-whisper's hotwords give way to a prefix.)
  ids_ = prompt_.ids(segments_, condition_, /*hotwords=*/prefix_.empty());
  if (first) first_prompt_ = ids_;
  const size_t length = ids_.size() + prefix_.size();
  if (!prefix_.empty() &&
      std::ssize(ids_) + std::ssize(prefix_) >= task_->settings->decoder_positions)
    throw InputError(ErrorKind::kResource,
                     "prefix: and the prompt before it have " + std::to_string(length) +
                         " tokens; the model has " +
                         std::to_string(task_->settings->decoder_positions) + " positions",
                     "prefix");
  set_length(length);
  begun_ = true;
  attempt_ = 0;
  answer_ = {};
}

PartRequest WindowSequence::attempt() {
  Ids ids = ids_;
  ids.insert(ids.end(), prefix_.begin(), prefix_.end());
  PartRequest out{0, prompt_of(ids), task_->options, static_cast<int>(prefix_.size())};
  const TranscriptionParams& params = task_->params;
  const double temperature = params.temperatures[attempt_];
  Options& options = out.options;
  options.set_do_sample(temperature > 0);
  options.clear_temperature();
  if (temperature > 0) {
    options.set_temperature(temperature);
    greedy_ = true;
    if (options.has_seed()) options.set_seed(seed_for(options.seed(), place_, windows_, attempt_));
  }
  if (greedy_) options.set_num_beams(1);
  if (task_->timestamps) options.set_return_timestamps(true);
  if (task_->timestamps || params.logprob_threshold) options.set_processed_logprobs(true);
  if (params.words) options.set_logprobs(0);
  if (max_length_) options.set_max_length(*max_length_);
  return out;
}

std::vector<PartRequest> WindowSequence::next(int& number) {
  std::vector<PartRequest> out;
  if (!under_way_.empty() || done()) return out;
  const auto add = [&](PartRequest request, Kind kind) {
    request.number = number++;
    under_way_[request.number] = kind;
    out.push_back(std::move(request));
  };
  const SpeechSettings& settings = *task_->settings;
  if (prompt_.open() && !search_) {
    const int64_t left =
        (mel_.frames - seek_ + settings.window_frames - 1) / settings.window_frames;
    search_.emplace(std::min<int64_t>(task_->params.detection_windows, std::max<int64_t>(left, 1)),
                    task_->params.detection_threshold);
  }
  if (search_ || (task_->params.multilingual && !language_known_)) {
    add(language_probe(), Kind::kLanguage);
    return out;
  }
  if (aligning_) {
    add(alignment(), Kind::kAlignment);
    return out;
  }
  const bool first = !begun_;
  if (first) begin_window();
  add(attempt(), Kind::kWindow);
  if (first && (task_->params.no_speech_threshold || task_->params.no_speech_prob))
    add(probe(prompt_.up_to_start(ids_), {*settings.no_timestamps - 1}), Kind::kSilence);
  return out;
}

void WindowSequence::take(int number, const proto::RequestOutput& output) {
  const auto node = under_way_.extract(number);
  const bool aligned = !node.empty() && node.mapped() == Kind::kAlignment;
  if (node.empty() || (aligned ? !output.has_embedding() : output.outputs_size() == 0))
    throw InputError(ErrorKind::kInternal, "a window of sound has no answer", kSoundField);
  if (aligned) return align(output.embedding());
  const proto::CompletionOutput& answer = output.outputs(0);
  switch (node.mapped()) {
    case Kind::kLanguage: return take_language(answer);
    case Kind::kSilence: answer_.no_speech_prob = std::exp(answer.cumulative_logprob()); break;
    case Kind::kWindow: take_answer(answer); break;
    case Kind::kAlignment: break;
  }
  if (under_way_.empty()) decide();
}

void WindowSequence::take_answer(const proto::CompletionOutput& output) {
  answer_.tokens = prefix_;
  answer_.tokens.insert(answer_.tokens.end(), output.token_ids().begin(), output.token_ids().end());
  answer_.finish_reason = output.finish_reason();
  answer_.temperature = task_->params.temperatures[attempt_];
  answer_.compression_ratio =
      WindowAnswer::compression_of(answer_.tokens, task_->settings->vocab_size);
  answer_.avg_logprob.reset();
  answer_.probabilities.assign(prefix_.size(), 1.0);  // (they are given)
  for (const proto::TokenLogprobs& token : output.logprobs())
    answer_.probabilities.push_back(token.top().empty() ? 0 : std::exp(token.top(0).logprob()));
  if (!output.token_ids().empty() && (task_->timestamps || task_->params.logprob_threshold))
    answer_.avg_logprob = output.cumulative_logprob() / output.token_ids_size();
}

void WindowSequence::decide() {
  const Verdict verdict = judge(answer_, task_->params);
  if (verdict == Verdict::kAgain && attempt_ + 1 < task_->params.temperatures.size())
    ++attempt_;
  else if (verdict == Verdict::kSilence || !task_->params.words)
    finish_window(verdict == Verdict::kSilence);
  else
    begin_alignment();
}

// The encoder's positions that hear the sound, not the silence that was put behind it.
int64_t WindowSequence::positions_with_sound() const {
  const SpeechSettings& s = *task_->settings;
  const int64_t samples = std::llround(mel_.seconds * s.mel.sampling_rate), hop = s.mel.hop_length;
  const int64_t frames = std::min((samples + hop - 1) / hop, mel_.frames) - seek_;
  return std::clamp<int64_t>(frames, 0, window_frames()) / s.frames_per_position;
}

// The last token was never read: it ends with the one before it. Where there is no sound, all ends
// at the window's begin.
void WindowSequence::begin_alignment() {
  ends_.assign(answer_.tokens.size(), 0.0);
  aligning_ = answer_.tokens.size() > 1 && positions_with_sound() > 0;
  if (!aligning_) finish_window(/*silence=*/false);
}

// The decoder reads the window's tokens once more; which shares the encoder's output with the
// request that wrote them.
PartRequest WindowSequence::alignment() const {
  PartRequest out;
  Ids ids = ids_;
  ids.insert(ids.end(), answer_.tokens.begin(), answer_.tokens.end() - 1);
  out.prompt = prompt_of(ids);
  out.prompt.mutable_pooling()->set_kind(proto::Pooling::ALIGNMENT);
  proto::Alignment& wanted = *out.prompt.mutable_pooling()->mutable_alignment();
  for (const auto& [layer, head] : task_->settings->alignment_heads) {
    proto::AttentionHead& one = *wanted.add_heads();
    one.set_layer(layer);
    one.set_head(head);
  }
  wanted.set_first_token(static_cast<int32_t>(ids_.size()));
  wanted.set_positions(static_cast<int32_t>(positions_with_sound()));
  share_caches(task_->options, out.options);
  return out;
}

void WindowSequence::align(const proto::Embedding& weights) {
  const int64_t rows = std::ssize(answer_.tokens) - 1, positions = positions_with_sound();
  const auto heads = std::ssize(task_->settings->alignment_heads);
  const auto& values = weights.values();
  if (values.size() != rows * heads * positions)
    throw InputError(ErrorKind::kInternal, "a window of sound has another alignment", kSoundField);
  const std::vector<float> matrix = alignment_matrix(
      {{values.data(), static_cast<size_t>(values.size())}, rows, heads, positions},
      task_->settings->median_filter_width);
  const std::vector<int64_t> first = first_positions(matrix, rows, positions);
  for (size_t i = 0; i < ends_.size(); ++i)
    ends_[i] = kSecondsPerPosition * static_cast<double>(first[std::min(i, first.size() - 1)]);
  aligning_ = false;
  finish_window(/*silence=*/false);
}

// Of the window that ends; segments have its first tokens, one after the other.
void WindowSequence::add_spoken(const WindowSegments& cut) {
  const double offset = task_->settings->mel.seconds_of(seek_);
  size_t at = 0;
  for (const proto::SpeechSegment& segment : cut.segments)
    for (const int32_t id : segment.token_ids()) {
      double begin = spoken_.empty() ? 0.0 : spoken_.back().end;
      if (at == 0 && jumped_) begin = std::max(begin, offset);
      spoken_.push_back({id, begin, offset + ends_[at],
                         at < answer_.probabilities.size() ? answer_.probabilities[at] : 0.0});
      ++at;
    }
}

void WindowSequence::add_segments(WindowSegments cut) {
  for (proto::SpeechSegment& segment : cut.segments) {
    segment.set_seek(seek_);
    segment.set_temperature(answer_.temperature);
    segment.set_compression_ratio(answer_.compression_ratio);
    if (answer_.avg_logprob) segment.set_avg_logprob(*answer_.avg_logprob);
    if (answer_.no_speech_prob) segment.set_no_speech_prob(*answer_.no_speech_prob);
    segments_.push_back(std::move(segment));
    languages_.push_back(prompt_.window_language());
  }
}

void WindowSequence::finish_window(bool silence) {
  const SpeechSettings& settings = *task_->settings;
  const SpeechWindow window{seek_, window_frames()};
  begun_ = language_known_ = false;
  ++windows_;
  finish_reason_ = answer_.finish_reason;
  condition_ = task_->params.condition_on_prev_tokens && answer_.temperature < 0.5;
  if (silence) return move_to(seek_ + window.frames);
  Ids& ids = answer_.tokens;
  const Ids& ends = settings.end_tokens;
  while (!ids.empty() && std::count(ends.begin(), ends.end(), ids.back()) > 0) ids.pop_back();
  WindowSegments cut = settings.clip ? whole(mel_, ids)
                                     : split_segments(ids, settings.first_timestamp(), window,
                                                      settings.frames_per_position);
  std::optional<int64_t> skip;
  if (silence_)
    skip =
        silence_->leave_out({window, prompt_.window_language(), ends_, answer_.probabilities}, cut);
  if (task_->params.words) add_spoken(cut);
  // Where the last time is the window's begin, HuggingFace would never end.
  const int64_t next = seek_ + (cut.frames > 0 ? cut.frames : window.frames);
  add_segments(std::move(cut));
  jumped_ = skip.has_value();
  move_to(skip.value_or(next));
}

}  // namespace tandem
