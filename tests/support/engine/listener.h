// The callback of one request at an engine, and what it has heard.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/engine/engine_api.h"

namespace tandem::testing {

// Errors end it too. Outlives the request.
class Listener {
 public:
  EngineApi::OnChunk callback() {
    return [this](proto::RequestChunk chunk) {
      const std::lock_guard lock(mutex_);
      EXPECT_FALSE(ended_) << "news after the last chunk";
      ended_ = chunk.finished() || chunk.has_error();
      ++chunks_;
      if (chunk.has_error()) error_ = chunk.error();
      for (const auto& news : chunk.outputs())
        tokens_.insert(tokens_.end(), news.token_ids().begin(), news.token_ids().end());
      changed_.notify_all();
    };
  }
  bool ends(std::chrono::seconds most = std::chrono::seconds(60)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [this] { return ended_; });
  }
  bool hears_a_token() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [this] { return !tokens_.empty(); });
  }
  bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  // Of a request that has ended.
  int chunks() const { return chunks_; }
  const std::vector<int>& tokens() const { return tokens_; }
  const std::string& error() const { return error_.type(); }
  const proto::Error& whole_error() const { return error_; }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  int chunks_ = 0;
  std::vector<int> tokens_;
  proto::Error error_;
};

}  // namespace tandem::testing
