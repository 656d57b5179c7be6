// Where requests are computed: in this process, in a cluster that a command starts, or at a server.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "client/tandem_client.h"
#include "runtime/engine/llm_engine.h"
#include "runtime/request/request_json.h"

namespace tandem::launcher {

class Backend {
 public:
  struct Finished {
    uint64_t number;  // of the request
    proto::RequestOutput output;
    std::optional<InputError> error;
    double seconds = 0;  // of the sound of a transcription
  };

  virtual ~Backend() = default;
  // Throws InputError if the request is at fault; it may also come with poll().
  virtual void submit(uint64_t number, JsonRequest request) = 0;
  // From now on poll() hands on what is new of each request, before its end.
  using ChunkSink = std::function<void(uint64_t number, const proto::RequestChunk& chunk)>;
  void stream_to(ChunkSink sink) { sink_ = std::move(sink); }
  // Goes on for a little while; what has finished since the last call.
  virtual std::vector<Finished> poll() = 0;
  // For the text of single tokens; null: it comes with the outputs.
  virtual const Tokenizer* tokenizer() const { return nullptr; }
  // What became of drafts so far; nothing where there are none, or it is not known here.
  virtual std::optional<SpeculationStats> drafts() const { return std::nullopt; }

  // Whether it reads JsonRequest::audio itself; else sound is in the prompt.
  virtual bool opens_files() const { return false; }
  // Whether there is room for one more sound now.
  virtual bool takes_sound() const { return true; }
  // Of transcriptions: sound that is done, and that has been opened.
  struct AudioSeconds {
    double done = 0, total = 0;
  };
  virtual AudioSeconds audio_seconds() const { return {}; }

 protected:
  ChunkSink sink_;  // may be empty
};

std::unique_ptr<Backend> make_local_backend(std::unique_ptr<LLMEngine> engine);
std::unique_ptr<Backend> make_client_backend(client::Client client);

}  // namespace tandem::launcher
