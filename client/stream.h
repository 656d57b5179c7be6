// One request as its user sees it: the output so far, and how it ended. Written by the dispatcher's
// thread, read from any.
#pragma once

#include <exception>
#include <functional>
#include <future>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "client/client_core.h"
#include "client/tandem_client.h"
#include "runtime/protocol/output_cursor.h"

namespace tandem::client {

class Stream {
 public:
  Stream(StreamKey key, std::string id, ChunkCallback on_chunk);

  const StreamKey key;
  const std::string id;

  // From the dispatcher. The callback runs without the lock. Returns what it threw, if it did.
  std::exception_ptr add(StreamNews news);
  // Ends it, unless it has ended.
  void fail(std::exception_ptr error);

  void set_cancel(std::function<void()> cancel);
  std::function<void()> cancel_function();
  void cancel() {
    if (const auto cancel = cancel_function()) cancel();
  }
  std::shared_future<proto::RequestOutput> future() const { return future_; }
  std::optional<proto::RequestChunk> next_chunk();

 private:
  const ChunkCallback on_chunk_;
  Mutex mutex_;
  CondVar changed_;
  std::function<void()> cancel_ GUARDED_BY(mutex_);
  proto::RequestOutput output_ GUARDED_BY(mutex_);
  bool done_ GUARDED_BY(mutex_) = false;
  std::exception_ptr error_ GUARDED_BY(mutex_);
  std::promise<proto::RequestOutput> promise_;
  std::shared_future<proto::RequestOutput> future_;
  // Of next_chunk().
  uint64_t version_ GUARDED_BY(mutex_) = 0, seen_version_ GUARDED_BY(mutex_) = 0;
  OutputCursor cursor_ GUARDED_BY(mutex_);
  std::optional<proto::SpeechProgress> progress_;  // the latest
};

}  // namespace tandem::client
