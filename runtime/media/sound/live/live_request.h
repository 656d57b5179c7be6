// A window of live sound as a request to an engine, and the engine's news as a hypothesis.
#pragma once

#include <optional>
#include <string>

#include "runtime/media/sound/live/live_transcriber.h"
#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// What a model can do with a window.
struct LiveModel {
  bool times = false;    // it says when each text is said
  bool tasks = false;    // its prompt says the task
  bool prompts = false;  // it takes texts that were said before
};

// As an ordinary transcription; `field` is the client's name of the sound.
proto::Prompt live_prompt(const LiveWindow& window, int rate, const LiveModel& model,
                          const std::string& field);

// Gathers a request's chunks.
class LiveAnswer {
 public:
  void add(const proto::RequestChunk& chunk);
  bool ended() const { return ended_; }
  // Of a request that has ended.
  const std::optional<proto::Error>& error() const { return error_; }
  LiveHypothesis hypothesis() const;
  int tokens() const { return tokens_; }

 private:
  proto::CompletionOutput output_;
  std::string language_;
  double seconds_ = 0;
  int tokens_ = 0;
  bool ended_ = false;
  std::optional<proto::Error> error_;
};

}  // namespace tandem
