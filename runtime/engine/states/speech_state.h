// A transcription under way, as RequestState is a request: what is computed for it, and its output
// so far. One thread; no I/O.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/engine/states/composite_state.h"
#include "runtime/media/sound/transcription.h"
#include "runtime/protocol/tandem.pb.h"
#include "text/tokenizer.h"

namespace tandem {

class SpeechState final : public CompositeState {
 public:
  // Times in seconds of one clock. `tokenizer` outlives the state.
  SpeechState(const std::string& request_id, std::shared_ptr<Transcription> transcription,
              const Tokenizer& tokenizer, double arrival_time);

  std::vector<PartRequest> next() override;
  void take(int number, const proto::RequestOutput& answer, double now) override;
  void stop() override;
  // Text and segments by window.
  const proto::RequestOutput& output() const override { return output_; }
  double seconds_done() const override { return seconds_done_; }
  double seconds() const override { return seconds_; }
  void check_integrity() const override;

 private:
  void add_segments();
  void finish(double now);

  std::shared_ptr<Transcription> transcription_;  // null: it has ended
  Detokenizer detokenizer_;
  CompositeTimes times_;
  double seconds_, seconds_done_ = 0;
  int unanswered_ = 0;
  size_t num_segments_ = 0;  // whose text is in the output
  proto::RequestOutput output_;
};

}  // namespace tandem
