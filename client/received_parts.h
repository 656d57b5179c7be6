// A stream's progress at the client, so that each of its tokens is passed on once. Checks the
// server's messages: they may be wrong, or come from something that only claims to be a server.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/protocol/tandem.pb.h"

namespace tandem::client {

class ReceivedParts {
 public:
  // Reduces `chunk` to its new part. Returns its error, or "".
  std::string take_news(proto::RequestChunk& chunk);
  // Writes the position from which a server is to continue.
  void write(proto::ResumeRequest& resume) const;

 private:
  struct Position {
    int num_tokens = 0;
    int64_t text_bytes = 0;
    int num_segments = 0;
  };
  std::string take_news(proto::CompletionChunk& chunk);

  std::map<int, Position> positions_;
  int num_prompt_logprobs_ = 0;
};

}  // namespace tandem::client
