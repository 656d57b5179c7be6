// One sound → the requests that transcribe it, and their answers → what was said. A state machine
// without I/O: the caller sends next()'s requests to an engine and hands the answers to take(), in
// any order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/media/sound/speech_input.h"
#include "runtime/media/sound/speech_settings.h"
#include "runtime/media/sound/transcription_params.h"
#include "runtime/media/sound/windows/chunk_merger.h"
#include "runtime/media/sound/windows/window_sequence.h"
#include "runtime/protocol/tandem.pb.h"
#include "text/tokenizer.h"

namespace tandem {

class Transcription {
 public:
  // Requests of one transcription that are under way at once, at most: those of that many pieces
  // that go on. Sound in one piece has one, or two that share a window.
  static constexpr size_t kMostPieces = 32;

  // `options`: of generation, for each window; temperatures are those of `params`. `input` was read
  // with the same `params` (read_speech()). What is shared outlives the transcription. Throws
  // InputError naming the parameter that the model does not know, or that is not built.
  Transcription(std::shared_ptr<const SpeechSettings> settings, SpeechInput input,
                const proto::SpeechParams& params, proto::GenerationOptions options,
                const Tokenizer& tokenizer);

  using Request = PartRequest;
  // All that can be sent now; what was returned before is not returned again. Throws InputError for
  // lengths that the model has no room for.
  std::vector<Request> next();
  // number: of a request that next() returned, and whose answer has not been taken. Throws
  // InputError if the answer has nothing to go on with.
  void take(int number, const proto::RequestOutput& output);
  bool done() const { return collected_ == pieces_.size(); }

  // Seconds of sound that are done, and that there are.
  double seconds_done() const;
  double seconds() const { return seconds_; }
  // What of the file could not be decoded.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // Those that stay as they are, in the order of time, with their texts; more come until done().
  // Without times() each has a window's begin and end.
  const std::vector<proto::SpeechSegment>& segments() const { return segments_; }
  bool times() const { return task_->timestamps; }
  // Each segment's text is decoded on its own; else all tokens are one text.
  bool chunked() const { return merger_ != nullptr; }
  // Its token, such as <|en|>; "": not known yet, or not at all.
  const std::string& language() const { return language_; }
  // The decoder's, of the first window.
  const std::vector<int32_t>& first_prompt() const { return first_prompt_; }
  // Of the last window.
  const std::string& finish_reason() const { return finish_reason_; }

 private:
  void begin_piece();
  void collect();
  void collect_segments(const WindowSequence& piece);
  void collect_chunk(const WindowSequence& piece);
  void place_segments();

  std::shared_ptr<const SpeechTask> task_;
  const Tokenizer& tokenizer_;
  double seconds_ = 0;
  std::vector<std::string> warnings_;
  std::vector<SpeechPiece> waiting_;                     // sounds have gone to those that began
  std::vector<std::unique_ptr<WindowSequence>> pieces_;  // null: has not begun, or is collected
  std::unique_ptr<ChunkMerger> merger_;                  // of chunks
  std::map<int, size_t> under_way_;                      // requests and their pieces
  int next_number_ = 0;
  size_t begun_ = 0, collected_ = 0;  // pieces
  size_t num_spoken_ = 0;             // tokens of segments_, of sound in one piece
  SpeechClock clock_;
  size_t num_placed_ = 0;  // segments_ whose times are those of the sound
  std::vector<proto::SpeechSegment> segments_;
  std::vector<int32_t> first_prompt_;
  std::string language_, finish_reason_ = "stop";
};

}  // namespace tandem
