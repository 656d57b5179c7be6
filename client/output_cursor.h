// How much of a growing output has been passed on.
#pragma once

#include <map>

#include "runtime/protocol/tandem.pb.h"

namespace tandem::client {

class OutputCursor {
 public:
  // What `output` has beyond what it had at the call before, but for its request's id.
  proto::RequestChunk next_chunk(const proto::RequestOutput& output);

 private:
  struct Position {
    int num_tokens = 0;
    size_t text_bytes = 0;
    bool finished = false;
  };
  bool seen_inputs_ = false;
  int seen_prompt_logprobs_ = 0;
  std::map<int, Position> seen_;  // by index
};

}  // namespace tandem::client
