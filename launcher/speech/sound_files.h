// Files of sound on their way to an engine: opened in their order, when there is room for what is
// in them, and how much of them is done. Plain data; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "runtime/engine/engine_api.h"
#include "runtime/request/request_json.h"

namespace tandem::launcher {

struct AudioSeconds {
  double done = 0, total = 0;
  double expected = 0;  // the total, where files that nobody has read are as long as the others
};

class SoundFiles {
 public:
  // A request that has `audio`; its turn comes.
  void add(uint64_t number, JsonRequest request) {
    waiting_.emplace_back(number, std::move(request));
  }
  // The number of the next one, if there is room for it.
  std::optional<uint64_t> next() const;
  // That request, with its file. It is under way until end(), whatever happens. Throws InputError
  // ("audio"): there is no such file.
  EngineApi::Request open(uint64_t number);
  // News of any request.
  void note(uint64_t number, const proto::RequestChunk& chunk);
  // It has ended. Returns the seconds of its sound; of any other request 0.
  double end(uint64_t number);
  // Of all: what is done, and what has been read.
  AudioSeconds seconds() const;

 private:
  struct Sound {
    AudioSeconds seconds = {};
    uint64_t bytes = 0;
    bool read = false;  // by the engine
  };
  void count_read(Sound& sound);

  std::deque<std::pair<uint64_t, JsonRequest>> waiting_;
  std::map<uint64_t, Sound> sounds_;  // under way, by the request's number
  uint64_t bytes_ahead_ = 0;          // of those that have not been read
  size_t files_ahead_ = 0;
  double done_ = 0;       // seconds of those that have ended
  size_t num_ended_ = 0;  // of these, those that had any
};

}  // namespace tandem::launcher
