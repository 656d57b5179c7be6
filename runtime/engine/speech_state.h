// A transcription under way, as RequestState is a request: what is computed for it, and its output
// so far. One thread; no I/O.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/media/sound/transcription.h"
#include "runtime/protocol/tandem.pb.h"
#include "text/tokenizer.h"

namespace tandem {

class SpeechState {
 public:
  // Times in seconds of one clock. `tokenizer` outlives the state.
  SpeechState(const std::string& request_id, std::shared_ptr<Transcription> transcription,
              const Tokenizer& tokenizer, double arrival_time);
  SpeechState(const SpeechState&) = delete;
  SpeechState& operator=(const SpeechState&) = delete;

  // The requests that are to be computed now, beside those that have no answer yet; each is
  // answered by take(). Throws InputError: what is asked for cannot be had.
  std::vector<Transcription::Request> next();
  // The whole answer to the request of that number. Throws InputError if it is none to go on with.
  void take(int number, const proto::RequestOutput& answer, double now);
  // It has ended, if not well: the sound and its windows are let go.
  void stop();

  // All that there is so far, and it only grows: text and segments by window. With metrics once it
  // has finished.
  const proto::RequestOutput& output() const { return output_; }
  bool finished() const { return output_.finished(); }
  // Of sound: how much is done, and how much there is.
  double seconds_done() const { return seconds_done_; }
  double seconds() const { return seconds_; }
  void check_integrity() const;

 private:
  void add_segments();
  void finish(double now);

  std::shared_ptr<Transcription> transcription_;  // null: it has ended
  Detokenizer detokenizer_;
  double arrival_time_, seconds_, seconds_done_ = 0;
  double queue_time_ = -1, first_text_ = -1;  // < 0: not yet
  int num_preemptions_ = 0;
  int unanswered_ = 0;
  size_t num_segments_ = 0;  // whose text is in the output
  proto::RequestOutput output_;
};

}  // namespace tandem
