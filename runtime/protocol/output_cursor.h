// A request's output in pieces, and whole again. For the engine, which sends what is new of an
// output that grows, and for clients, which gather it. Plain data; one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "runtime/protocol/tandem.pb.h"

namespace tandem {

// How much of one output its reader has been given.
class OutputCursor {
 public:
  // What has come since the last chunk. Nothing is lost when chunks are made rarely, and nothing
  // is copied twice. The inputs are in the first chunk.
  proto::RequestChunk next_chunk(const proto::RequestOutput& output);
  // The same, into an empty chunk.
  void next_chunk(const proto::RequestOutput& output, proto::RequestChunk& chunk);
  // There is something that no chunk has carried yet: the next chunk is not an empty one.
  bool behind(const proto::RequestOutput& output) const;
  // Goes on behind what the reader says that it has, which is no more than the output has. Segments
  // come again from the first on.
  void resume(const proto::ResumeRequest& received);

 private:
  struct Position {
    int num_tokens = 0;
    size_t text_bytes = 0;
    int num_segments = 0;
    bool ended = false;
    bool behind(const proto::CompletionOutput& sequence) const;
  };

  bool inputs_sent_ = false, language_sent_ = false;
  bool end_sent_ = false;
  int num_prompt_logprobs_ = 0;
  std::map<int32_t, Position> positions_;  // by the sequence's index
};

// Adds the chunk's news to what came before. Outputs are in the order of their indices.
void append_chunk(proto::RequestOutput& output, const proto::RequestChunk& chunk);

}  // namespace tandem
