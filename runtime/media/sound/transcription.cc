#include "runtime/media/sound/transcription.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/error.h"
#include "text/language_names.h"

namespace tandem {
namespace {

void check_generation(const proto::GenerationOptions& options) {
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
  if (params.condition_on_prev_tokens)
    throw not_supported("condition_on_prev_tokens", "the model hears a clip as a whole");
}

// Whether the model is to say times; those of a sound that is longer than a window it has to, also
// where the model's defaults say that it does not.
bool with_times(const SpeechSettings& settings, const TranscriptionParams& params, bool is_long,
                const proto::SpeechParams& asked) {
  if (is_long && asked.has_return_timestamps() && !asked.return_timestamps())
    throw invalid_request("return_timestamps",
                          "must not be false: sound that is longer than a window is cut where the "
                          "model says times (or into chunks, with chunk_length_s)");
  const bool times = is_long || params.return_timestamps.value_or(false);
  if (times && !settings.no_timestamps)
    throw not_supported(is_long ? kSoundField : "return_timestamps",
                        "generation_config.json has no no_timestamps_token_id: the model says no "
                        "times, which sound longer than a window needs");
  return times;
}

// In frames: of the sound, or of its clips.
int64_t longest_clip(const LogMel& mel, const SpeechSettings& settings,
                     const TranscriptionParams& params) {
  if (params.clips.empty()) return mel.frames;
  int64_t out = 0;
  const int64_t frames = frames_of_sound(mel, settings);
  for (const SoundClip& clip : clips_of(params.clips, frames, settings.mel.frames_per_second()))
    out = std::max(out, clip.end - clip.begin);
  return out;
}

// How a window was decoded, without what was said and when.
proto::SpeechSegment facts_of(const proto::SpeechSegment& segment) {
  proto::SpeechSegment out = segment;
  out.clear_start();
  out.clear_end();
  out.clear_seek();
  out.clear_token_ids();
  out.clear_text();
  out.clear_words();
  out.clear_token_timestamps();
  return out;
}

std::vector<int32_t> ids_of(const proto::SpeechSegment& segment) {
  return {segment.token_ids().begin(), segment.token_ids().end()};
}

}  // namespace

Transcription::Transcription(std::shared_ptr<const SpeechSettings> settings, SpeechInput input,
                             const proto::SpeechParams& params, proto::GenerationOptions options,
                             const Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      seconds_(input.seconds),
      warnings_(std::move(input.warnings)),
      waiting_(std::move(input.pieces)),
      clock_(input.speech, VoiceNetwork::kRate) {
  check_generation(options);
  auto task = std::make_shared<SpeechTask>();
  task->params = TranscriptionParams::of(params, *settings, tokenizer);
  if (settings->clip) check_clip(task->params);
  const bool chunked = task->params.chunked;
  const bool is_long =
      !chunked && !waiting_.empty() &&
      longest_clip(waiting_[0].mel, *settings, task->params) > settings->window_frames;
  task->timestamps = with_times(*settings, task->params, is_long, params);
  task->settings = std::move(settings);
  task->options = std::move(options);
  task->tokenizer = &tokenizer_;
  task_ = std::move(task);
  if (chunked)
    merger_ = std::make_unique<ChunkMerger>(*task_->settings, tokenizer_, task_->timestamps,
                                            clock_.empty() ? seconds_ : clock_.seconds());
  pieces_.resize(waiting_.size());
  const bool has_sound = !waiting_.empty() && waiting_[0].mel.frames > 0;
  if (!waiting_.empty()) begin_piece();
  if (has_sound && pieces_[0]->done()) {  // no clip is in it
    pieces_.clear();
    waiting_.clear();
    begun_ = 0;
  }
}

void Transcription::begin_piece() {
  const size_t i = begun_++;
  pieces_[i] =
      std::make_unique<WindowSequence>(task_, std::move(waiting_[i].mel), static_cast<int>(i));
}

std::vector<Transcription::Request> Transcription::next() {
  std::vector<Request> out;
  size_t active = 0;
  for (size_t i = collected_; i < pieces_.size() && active < kMostPieces; ++i) {
    if (i == begun_) begin_piece();
    if (pieces_[i]->done()) continue;
    ++active;
    for (Request& request : pieces_[i]->next(next_number_)) {
      under_way_[request.number] = i;
      out.push_back(std::move(request));
    }
  }
  return out;
}

void Transcription::take(int number, const proto::RequestOutput& output) {
  const auto node = under_way_.extract(number);
  TANDEM_CHECK(!node.empty(), "no such request is under way");
  WindowSequence& piece = *pieces_[node.mapped()];
  piece.take(number, output);
  if (node.mapped() == 0) {
    language_ = piece.language();
    first_prompt_ = piece.first_prompt();
  }
  collect();
  place_segments();
}

// From times in what was left of the sound, where silence was cut out.
void Transcription::place_segments() {
  if (clock_.empty()) return;
  for (; num_placed_ < segments_.size(); ++num_placed_) {
    proto::SpeechSegment& segment = segments_[num_placed_];
    segment.set_start(clock_.begin(segment.start()));
    segment.set_end(clock_.end(segment.end()));
    for (double& time : *segment.mutable_token_timestamps()) time = clock_.end(time);
    for (proto::SpeechWord& word : *segment.mutable_words()) {
      const auto [begin, end] = clock_.word(word.start(), word.end());
      word.set_start(begin);
      word.set_end(end);
    }
    if (segment.words().empty()) continue;
    segment.set_start(segment.words().begin()->start());
    segment.set_end(segment.words().rbegin()->end());
  }
}

// What is certain now of the pieces in their order.
void Transcription::collect() {
  for (; collected_ < begun_; ++collected_) {
    const WindowSequence& piece = *pieces_[collected_];
    if (!merger_) collect_segments(piece);
    if (!piece.done()) return;
    if (merger_) collect_chunk(piece);
    finish_reason_ = piece.finish_reason();
    pieces_[collected_].reset();
  }
  if (merger_ && done()) merger_->finish(segments_);
}

void Transcription::collect_segments(const WindowSequence& piece) {
  for (size_t i = segments_.size(); i < piece.segments().size(); ++i) {
    proto::SpeechSegment& segment = segments_.emplace_back(piece.segments()[i]);
    segment.set_text(tokenizer_.decode(ids_of(segment), /*skip_special=*/true));
    const auto size = static_cast<size_t>(segment.token_ids_size());
    if (task_->params.words)
      add_words(std::span(piece.spoken()).subspan(num_spoken_, size), tokenizer_,
                language_code_of_token(piece.language_of(i)), task_->settings->first_timestamp(),
                segment);
    num_spoken_ += size;
  }
}

void Transcription::collect_chunk(const WindowSequence& piece) {
  const SpeechPiece& place = waiting_[collected_];
  ChunkMerger::Chunk chunk{{}, place.length, place.left, place.right};
  chunk.spoken = piece.spoken();
  chunk.language = language_code_of_token(piece.language());
  if (!piece.segments().empty()) chunk.facts = facts_of(piece.segments().front());
  for (const proto::SpeechSegment& segment : piece.segments())
    chunk.tokens.insert(chunk.tokens.end(), segment.token_ids().begin(), segment.token_ids().end());
  merger_->add(chunk, segments_);
}

double Transcription::seconds_done() const {
  if (done()) return seconds_;
  double out = 0;  // of speech
  for (size_t i = 0; i < begun_; ++i) {
    // Each second counts for one chunk: the one where it is not shared on the right.
    const SpeechPiece& place = waiting_[i];
    const double own = place.length - place.left - (i + 1 < waiting_.size() ? place.right : 0);
    if (i < collected_) {
      out += own;
      continue;
    }
    const WindowSequence& piece = *pieces_[i];
    const double said = task_->settings->mel.seconds_of(piece.frames_done());
    out += piece.done() ? own : std::clamp(said - place.left, 0.0, own);
  }
  return std::min(clock_.begin(out), seconds_);
}

}  // namespace tandem
