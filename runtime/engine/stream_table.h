// What each client has been sent, and what it has acknowledged: credit, coalescing, resumption.
// Plain data; owned by EngineCore, used from its thread only.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/engine/request_state.h"

namespace tandem {

using ClientId = uint64_t;  // of a connection; never used twice

// One request's stream: how far its client is.
class StreamCursor {
 public:
  // Behind what the client says that it has. Throws InputError if that is more than there is.
  void resume(const RequestState& request, const proto::ResumeRequest& received);
  // The news since the last chunk; nothing is lost when chunks are made rarely.
  proto::RequestChunk next_chunk(const RequestState& request, double now);
  // The same, into an empty chunk.
  void next_chunk(const RequestState& request, double now, proto::RequestChunk& chunk);
  // There is something that no chunk has carried yet.
  bool behind(const RequestState& request) const;

 private:
  struct Position {
    int num_tokens = 0;
    size_t text_bytes = 0;
    bool finished = false;
  };
  Position& at(size_t index);

  bool inputs_sent_ = false;
  bool last_sent_ = false;
  int num_prompt_logprobs_ = 0;
  std::vector<Position> seqs_;
};

// A connected client: a window of unacknowledged messages, and the requests with news for it. One
// that acknowledges nothing has no window.
class ClientWindow {
 public:
  static constexpr uint64_t kMaxUnacknowledged = 16;

  explicit ClientWindow(bool acknowledges = true) : acknowledges_(acknowledges) {}
  bool acknowledges() const { return acknowledges_; }
  bool has_credit() const {
    return !acknowledges_ || next_ - 1 - acknowledged_ < kMaxUnacknowledged;
  }
  uint64_t next_message() { return next_++; }
  // Cumulative. Returns the requests whose last chunk is known to have arrived.
  std::vector<std::string> acknowledge(uint64_t message);
  void wait_for_acknowledgement(uint64_t message, const std::string& request_id) {
    last_chunks_[message].push_back(request_id);
  }

  std::set<std::string> requests;  // of this client
  std::set<std::string> news;      // those of them that have something to send

 private:
  bool acknowledges_;
  uint64_t next_ = 1, acknowledged_ = 0;
  std::map<uint64_t, std::vector<std::string>> last_chunks_;
};

}  // namespace tandem
