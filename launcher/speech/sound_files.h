// A backend whose requests may name files of sound: they are read when there is room for what is in
// them, and become prompts. It knows how much of them is done. Other requests pass through.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "launcher/backend.h"

namespace tandem::launcher {

class SoundFiles final : public Backend {
 public:
  // `inner` outlives it.
  explicit SoundFiles(Backend& inner) : inner_(inner) {}

  // A file is opened when its turn comes; what is wrong with it comes with poll().
  void submit(uint64_t number, JsonRequest request) override;
  std::vector<Finished> poll() override;
  const Tokenizer* tokenizer() const override { return inner_.tokenizer(); }
  std::optional<SpeculationStats> drafts() const override { return inner_.drafts(); }
  AudioSeconds audio_seconds() const override;

 private:
  struct Sound {
    AudioSeconds seconds = {};
    uint64_t bytes = 0;  // that wait to be decoded
  };
  void listen();
  void start(std::vector<Finished>& out);
  void send(uint64_t number, JsonRequest request);
  void note(uint64_t number, const proto::RequestChunk& chunk);
  // It has ended. Returns the seconds of its sound.
  double end(uint64_t number);

  Backend& inner_;
  bool listens_ = false;
  std::deque<std::pair<uint64_t, JsonRequest>> waiting_;
  std::map<uint64_t, Sound> sounds_;  // under way, by the request's number
  uint64_t bytes_ = 0;                // of all of these
  double done_ = 0;                   // seconds of those that have ended
};

}  // namespace tandem::launcher
