// A backend that reads sound: of a request with a file it makes those that transcribe its windows,
// beside all others of the same backend. Other requests pass through.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <vector>

#include "launcher/backend.h"
#include "runtime/media/sound/transcription.h"
#include "text/tokenizer.h"

namespace tandem::launcher {

class SpeechBackend final : public Backend {
 public:
  // `inner` outlives it. model: its directory; empty: it is a server's, and sound is an error.
  SpeechBackend(Backend& inner, std::filesystem::path model);

  // A file is opened when its turn comes; what is wrong with it comes with poll().
  void submit(uint64_t number, JsonRequest request) override;
  std::vector<Finished> poll() override;
  const Tokenizer* tokenizer() const override { return inner_.tokenizer(); }
  std::optional<SpeculationStats> drafts() const override { return inner_.drafts(); }
  AudioSeconds audio_seconds() const override;

 private:
  struct Sent {
    uint64_t number;  // of the request
    int window = -1;  // its transcription's number; -1: it passes through
  };
  void load();
  void start(std::vector<Finished>& out);
  void begin(uint64_t number, JsonRequest request);
  void go_on(uint64_t number);
  void end(uint64_t number);
  bool take(const Sent& sent, Finished& finished);
  void send(Sent sent, JsonRequest request);

  Backend& inner_;
  std::filesystem::path model_;
  std::shared_ptr<const SpeechSettings> settings_;  // once there is sound
  std::unique_ptr<Tokenizer> own_tokenizer_;        // where the backend has none
  std::deque<std::pair<uint64_t, JsonRequest>> waiting_;
  std::map<uint64_t, Sent> sent_;                            // by the number that `inner` knows
  std::map<uint64_t, std::unique_ptr<Transcription>> jobs_;  // by their requests' numbers
  uint64_t next_ = 0;
  bool streams_ = false;
  double done_ = 0, total_ = 0;  // seconds of transcriptions that have ended, and of all
  double active_ = 0;            // seconds of those under way
};

}  // namespace tandem::launcher
