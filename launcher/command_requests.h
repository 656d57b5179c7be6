// The requests of a command at an engine, by the command's numbers: sent, and their chunks put
// together. The engine's threads only leave chunks here; everything else is the command's thread's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "launcher/speech/sound_files.h"
#include "runtime/engine/engine_api.h"
#include "runtime/request/request_json.h"

namespace tandem::launcher {

class CommandRequests {
 public:
  using Clock = std::chrono::steady_clock;

  struct Finished {
    uint64_t number;  // of the request
    proto::RequestOutput output;
    std::optional<InputError> error;
    double seconds = 0;  // of the sound of a transcription
  };

  // The engine outlives it. lora: the adapter of requests that name none; empty: the model.
  explicit CommandRequests(EngineApi& engine, std::string lora = {});
  CommandRequests(const CommandRequests&) = delete;
  CommandRequests& operator=(const CommandRequests&) = delete;

  // Never waits; what is wrong with the request comes with poll(). The number is used once. A file
  // of sound is opened when its turn comes.
  void submit(uint64_t number, JsonRequest request);
  // From now on poll() hands on what is new of each request, before its end; `at` is when the
  // engine said it.
  using ChunkSink =
      std::function<void(uint64_t number, const proto::RequestChunk& chunk, Clock::time_point at)>;
  void stream_to(ChunkSink sink);
  // What has finished since the last call; waits a little while for something.
  std::vector<Finished> poll();
  // Of transcriptions: sound that is done, and that has been read.
  AudioSeconds audio_seconds() const { return sounds_.seconds(); }

 private:
  struct Inbox;

  void send(uint64_t number, EngineApi::Request request);
  void send_sounds(std::vector<Finished>& out);

  EngineApi& engine_;
  const std::string prefix_;  // of ids: a server has other clients
  const std::string lora_;
  ChunkSink sink_;  // may be empty
  SoundFiles sounds_;
  std::map<uint64_t, proto::RequestOutput> outputs_;  // of requests under way
  const std::shared_ptr<Inbox> inbox_;                // the engine's callbacks hold it too
};

}  // namespace tandem::launcher
