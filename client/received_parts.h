// How far a stream has come here, so that each of its tokens is passed on once. What a server says
// of it is checked: it may be wrong, or come from something that only claims to be a server.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "runtime/protocol/tandem.pb.h"

namespace tandem::client {

class ReceivedParts {
 public:
  // Leaves in `chunk` what is new. Returns what is wrong with it, or nothing.
  std::string take_news(proto::RequestChunk& chunk);
  // What a server is told that is to go on behind it.
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
